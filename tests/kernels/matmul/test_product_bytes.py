"""Products of unsigned bytes with constant signed ones, exact in 32 bits on every target."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.kernels.helpers import AVX2, AVX512, SSE, run, runs_here, scheduled
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.byte_weights import MOST_STEPS
from tvm_hetero.kernels.matmul.bytes_dense import MOST_DEPTH, bytes_dense, less_zero_point
from tvm_hetero.kernels.recurrent.recurrence import MOST_BYTES
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

OWN = tvm.target.Target({"kind": "llvm", "mcpu": own_mcpu(), "num-cores": 1})
TARGETS = [pytest.param(t, id=str(t.attrs["mcpu"])) for t in (AVX512, AVX2, SSE)]
TARGETS.append(pytest.param(OWN, id="own"))


def module(shape: tuple[int, ...], weights: np.ndarray, dtype: str = "uint8") -> tvm.IRModule:
    """A product less a zero point, in float32."""
    bb = relax.BlockBuilder()
    codes = relax.Var("codes", relax.TensorType(shape, dtype))
    zero = relax.Var("zero", relax.TensorType([], "uint8"))
    with bb.function("main", [codes, zero]):
        with bb.dataflow():
            total = less_zero_point(bb, bytes_dense(bb, codes, weights), zero, weights)
            result = bb.emit_output(relax.op.astype(total, "float32"))
        bb.emit_func_output(result)
    return bb.get()


def rules(mod: tvm.IRModule) -> set[str]:
    return {rule_of(f) for _, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "columns"), [((1, 64), 64), ((12, 7), 70), ((2, 5, 33), 10), ((7, 260), 130)]
)
def test_sums_are_exact_by_whatever_instructions(
    shape: tuple[int, ...], columns: int, target: tvm.target.Target
) -> None:
    d = np.random.default_rng(0)
    weights = d.integers(-128, 128, (shape[-1], columns))
    codes = d.integers(0, 256, shape).astype(np.uint8)
    mod = scheduled(LowerToTasks([target])(module(shape, weights)), target)
    assert rules(mod) == {"bytes"}
    if runs_here(target):
        got = run(mod, target, codes, np.array(131, np.uint8))
        want = (codes.astype(np.int64) - 131) @ weights
        np.testing.assert_array_equal(got, want.astype(np.float32))


def test_the_greatest_sums_fit() -> None:
    weights = np.full((MOST_DEPTH, 16), -128)
    codes = np.full((1, MOST_DEPTH), 255, np.uint8)
    mod = scheduled(LowerToTasks([OWN])(module(codes.shape, weights)), OWN)
    got = run(mod, OWN, codes, np.array(0, np.uint8))
    np.testing.assert_array_equal(got, np.full((1, 16), -255 * 128 * MOST_DEPTH, np.float32))
    assert MOST_STEPS == MOST_DEPTH == MOST_BYTES


@pytest.mark.parametrize(("shape", "dtype"), [((3, 5), "uint8"), ((3, 4), "int8"), ((4,), "uint8")])
def test_sides_that_do_not_fit_are_refused(shape: tuple[int, ...], dtype: str) -> None:
    with pytest.raises(ModelError, match="a product of bytes"):
        module(shape, np.ones((4, 8)), dtype)


NEON = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]})


def whole_numbers(codes: np.ndarray, weights: np.ndarray, dtype: str = "uint8") -> tvm.IRModule:
    """``(int32(codes) - zero) @ weights`` as a front end writes it."""
    bb = relax.BlockBuilder()
    left = relax.Var("codes", relax.TensorType(codes.shape, dtype))
    zero = relax.Var("zero", relax.TensorType([], dtype))
    with bb.function("main", [left, zero]):
        with bb.dataflow():
            numbers = bb.emit(relax.op.astype(left, "int32"))
            less = bb.emit(relax.op.subtract(numbers, bb.emit(relax.op.astype(zero, "int32"))))
            constant = relax.const(tvm.runtime.tensor(weights.astype(np.int32)))
            total = bb.emit(relax.op.matmul(less, constant, out_dtype="int32"))
            result = bb.emit_output(relax.op.astype(total, "float32"))
        bb.emit_func_output(result)
    return bb.get()


@pytest.mark.parametrize(
    ("targets", "dtype", "factor", "of_bytes"),
    [
        ([AVX2], "uint8", 1, True),
        ([NEON], "uint8", 1, False),
        ([AVX2, NEON], "uint8", 1, False),
        ([AVX2], "int8", 1, False),
        ([AVX2], "uint8", 1000, False),
    ],
    ids=["bytes", "arm", "both", "signed codes", "large weights"],
)
def test_the_targets_and_the_sides_decide_what_is_multiplied(
    targets: list[tvm.target.Target], dtype: str, factor: int, of_bytes: bool
) -> None:
    d = np.random.default_rng(1)
    weights = d.integers(-128, 128, (33, 10)) * factor
    codes = d.integers(0, 128, (5, 33)).astype(dtype)
    lowered = LowerToTasks(targets)(whole_numbers(codes, weights, dtype))
    assert any("bytes" in gv.name_hint for gv in lowered.get_global_vars()) == of_bytes
    got = run(scheduled(lowered, AVX2), AVX2, codes, np.array(31, dtype))
    want = (codes.astype(np.int64) - 31) @ weights
    np.testing.assert_array_equal(got, want.astype(np.float32))
