"""DynamicQuantizeLSTM by our kernels beside ONNX Runtime, on one thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.contributed import Draw, one_node, rewritten
from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import compute
from tvm_hetero.errors import ModelError

WIDTH, HIDDEN, STEPS = 7, 16, 12


def quantized(
    d: Draw, dtype: Any, batch: int, directions: int, *, by_column: bool, initial: bool
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A node with random weights, and its feeds."""
    gates = 4 * HIDDEN
    shape = (directions, gates) if by_column else (directions,)
    weights = [d.codes(dtype, directions, n, gates) for n in (WIDTH, HIDDEN)]
    zero = np.full(shape, 0 if dtype is np.int8 else 131, dtype)
    scales = [d.scales(*shape) / 20 for _ in range(2)]
    bias = d.normal(directions, 2 * gates) * np.float32(0.3)
    state = d.normal(directions, batch, HIDDEN) if initial else None
    ends = [scales[0], zero, scales[1], zero]
    operands = [d.normal(STEPS, batch, WIDTH), *weights, bias, None, state, state, None, *ends]
    way = "bidirectional" if directions == 2 else "forward"
    return one_node(
        "DynamicQuantizeLSTM", operands, results=3, constants=(1, 2, 3, 8, 9, 10, 11),
        hidden_size=HIDDEN, direction=way,
    )  # fmt: skip


def typed(model: onnx.ModelProto, results: list[np.ndarray]) -> onnx.ModelProto:
    """The model with its outputs declared to be like these."""
    for output, result in zip(model.graph.output, results, strict=True):
        kind = helper.np_dtype_to_tensor_dtype(result.dtype)
        output.CopyFrom(helper.make_tensor_value_info(output.name, kind, result.shape))
    return model


@pytest.mark.parametrize(
    ("dtype", "batch", "directions", "by_column", "initial"),
    [
        (np.uint8, 1, 1, False, False),
        (np.uint8, 1, 2, False, True),
        (np.int8, 1, 1, True, True),
        (np.int8, 3, 2, False, False),
    ],
)
def test_input_and_state_are_quantized_as_onnx_runtime_does(
    dtype: Any, batch: int, directions: int, by_column: bool, initial: bool
) -> None:
    given = {"by_column": by_column, "initial": initial}
    model, feeds = quantized(Draw(), dtype, batch, directions, **given)
    wanted = run(model, feeds)
    for got, want in zip(compute(typed(model, wanted), feeds), wanted, strict=True):
        # Without the levels of the state the results differ by some 1e-3.
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_the_state_stays_quantized_where_results_are_renamed() -> None:
    model, feeds = quantized(Draw(), np.uint8, 1, 1, by_column=False, initial=False)
    node = model.graph.node[0]
    node.output[:] = ["inner", "", ""]
    model.graph.node.append(helper.make_node("Identity", ["inner"], ["y0"]))
    del model.graph.output[1:]
    wanted = run(model, feeds)
    got = compute(typed(model, wanted), feeds)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5, atol=1e-5)


def test_lengths_are_refused() -> None:
    model, _ = quantized(Draw(), np.uint8, 1, 1, by_column=False, initial=False)
    model.graph.node[0].input[4] = "lengths"
    lengths = helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, [1])
    model.graph.input.append(lengths)
    with pytest.raises(ModelError, match="has sequence_lens, which is not taken"):
        rewritten(model)
