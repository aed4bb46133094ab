"""Operators with drawn attributes compute what onnx or ONNX Runtime says; more by ``make fuzz``."""

from __future__ import annotations

import onnx
import pytest

from tests.fuzz.operator_forms import FORMS, draw_form
from tests.fuzz.operators_alone import attempt, main
from tvm_hetero.frontends.onnx.conversion.registry import converted_operators

# What has no form: of sequences and graphs (`onnx_loops`), of codes (`quantized_models`), and what
# awaits one.
ELSEWHERE = frozenset({
    "If", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
    "SplitToSequence", "ConcatFromSequence", "Constant", "QLinearConv", "QLinearMatMul",
    "ConvInteger", "AffineGrid", "Bernoulli", "BitCast", "DeformConv", "Dropout", "MaxRoiPool",
    "MaxUnpool", "MelWeightMatrix", "Multinomial", "NonMaxSuppression", "RandomNormal",
    "RandomNormalLike", "RandomUniform", "RandomUniformLike", "STFT", "Scan", "Scatter",
    "SequenceMap", "TensorScatter",
})  # fmt: skip


def test_each_operator_that_is_converted_has_forms() -> None:
    names = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    assert names & converted_operators() <= FORMS.keys() | ELSEWHERE
    assert not FORMS.keys() & ELSEWHERE


def test_most_forms_are_models_and_the_seed_decides_all() -> None:
    invalid = 0
    for seed in range(300):
        form, opset = draw_form(seed)
        assert (str(form), opset) == (str(draw_form(seed)[0]), draw_form(seed)[1])
        try:
            form.model(opset)
        except Exception:  # whatever onnx raises
            invalid += 1
    assert invalid < 15


# One each of what was wrong: Shrink, Celu, ReduceL2, LayerNormalization, RoiAlign, GridSample.
@pytest.mark.parametrize(
    "only", ["Shrink", "Celu", "ReduceL2", "LayerNormalization", "RoiAlign", "GridSample"]
)
def test_an_operator_alone_is_like_one_of_the_two(only: str) -> None:
    for seed in (1, 2):
        status, why = attempt(seed, [only])
        assert status != "wrong", why


def test_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "2", "--only", "Abs"]) == 0
    assert '"count": 2, "faults": 0' in capsys.readouterr().out
