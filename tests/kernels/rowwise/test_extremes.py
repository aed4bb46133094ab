"""Extremes of rows begin with infinity, and ReLU of NaN is NaN, in Relax of any front end."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_hetero.kernels.cpu.compilation import PIPELINE
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
    kernels = [f for _, f in lowered.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    assert len(kernels) == (2 if given.size % 16 == 0 else 1)
    executable = tvm.compile(lowered, target="llvm", tir_pipeline=PIPELINE)
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(given))
    np.testing.assert_array_equal(found.numpy(), np.nanmax(given, keepdims=keep))
