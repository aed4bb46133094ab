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
