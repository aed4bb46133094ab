"""Extremes of rows begin with infinity, and ReLU of NaN is NaN, in Relax of any front end."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.kernels.helpers import AVX2, AVX512, SSE, kernels, model, run, runs_here, scheduled
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

NAN, INF = np.nan, np.inf
ROWS = np.array([[-INF, -INF, -INF], [1, NAN, 3], [INF, 0, -INF], [NAN, NAN, NAN]], np.float32)
OPERATORS = {
    "max": lambda x: relax.op.max(x, axis=1),
    "min": lambda x: relax.op.min(x, axis=-1, keepdims=True),
    "argmax": lambda x: relax.op.argmax(x, axis=1),
    "argmin": lambda x: relax.op.argmin(x, axis=1, keepdims=True),
    "relu": relax.op.nn.relu,
}
EXPECTED = {
    "max": [-INF, 3, INF, -INF],
    "min": [[-INF], [1], [-INF], [INF]],
    "argmax": [0, 2, 0, 0],
    "argmin": [[0], [0], [2], [0]],
    "relu": np.where(np.isnan(ROWS), ROWS, np.maximum(ROWS, 0)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_infinities_and_nan_come_out_as_they_should(name: str) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(ROWS.shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            given = builder.emit_output(builder.emit(OPERATORS[name](x)))
        builder.emit_func_output(given)
    lowered = LowerToTasks()(builder.get())
    executable = tvm.compile(lowered, target="llvm", tir_pipeline=PIPELINE)
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(ROWS))
    np.testing.assert_array_equal(found.numpy(), EXPECTED[name])


@pytest.mark.parametrize("length", [64, 67, 97, 508])
@pytest.mark.parametrize("name", ["max", "min"])
def test_rows_of_any_length_fill_registers(name: str, length: int) -> None:
    """One of 508 = 4 * 127 values took eight times as long as one of 512."""
    rows = np.random.default_rng(length).standard_normal((7, length)).astype(np.float32)
    rows[1, 3], rows[2, -1], rows[3], rows[4, 1:] = NAN, NAN, -INF, INF
    body = OPERATORS[name]
    lowered = LowerToTasks()(model([rows.shape], body))
    rules = {rule_of(schedule_kernel(f, AVX512)) for f in kernels(lowered).values()}
    assert rules == {"rows"}
    target = next(t for t in (AVX512, AVX2, SSE) if runs_here(t))
    found = run(scheduled(lowered, target), target, rows)
    extreme = np.fmax if name == "max" else np.fmin
    np.testing.assert_array_equal(found.reshape(7), extreme.reduce(rows, axis=1))


def test_for_a_gpu_a_row_is_one_reduction() -> None:
    """Of parts TVM makes none for a GPU: it does not know that they begin with infinity."""
    rows = np.zeros((7, 508), np.float32)
    cuda = tvm.target.Target("cuda")
    for targets, reductions in (([AVX512], 2), ([AVX512, cuda], 1), ([cuda], 1)):
        (kernel,) = kernels(LowerToTasks(targets)(model([rows.shape], OPERATORS["max"]))).values()
        assert kernel.script().count("with T.init()") == reductions


@pytest.mark.parametrize("shape", [(4, 16, 48), (5, 1031)])
@pytest.mark.parametrize("keep", [False, True])
def test_the_extreme_of_a_large_tensor_is_found_in_two_steps(
    shape: tuple[int, ...], keep: bool
) -> None:
    given = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    given.flat[0] = NAN
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(relax.op.max(x, keepdims=keep)))
        builder.emit_func_output(result)
    lowered = LowerToTasks()(builder.get())
    assert len(kernels(lowered)) == (2 if given.size % 16 == 0 else 1)
    executable = tvm.compile(lowered, target="llvm", tir_pipeline=PIPELINE)
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(given))
    np.testing.assert_array_equal(found.numpy(), np.nanmax(given, keepdims=keep))
