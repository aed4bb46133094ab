"""Small buffers live on the stack, others in workspaces; results are those of TVM's pipeline."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T

from tests.kernels.helpers import AVX2
from tvm_hetero.kernels.cpu.compilation import MOST, build, small_buffers_on_stack

WORKSPACE = "TVMBackendAllocWorkspace"


def sums(length: int, dtype: str = "float32", scope: str = "local") -> tirx.PrimFunc:
    """``y[i] = x[i] + ... + x[i + 7]`` by way of a buffer of `length` values."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((length + 7,), dtype), y: T.Buffer((length,), dtype)):  # type: ignore[valid-type]
        total = T.alloc_buffer((length,), dtype, scope=scope)
        for i in T.serial(length):
            total[i] = T.Cast(dtype, 0)
        for j, i in T.grid(8, length):
            total[i] = total[i] + x[i + j]
        for i in T.serial(length):
            y[i] = total[i]

    return main


def module(func: tirx.PrimFunc) -> tvm.IRModule:
    return tvm.IRModule({"main": func.with_attr("global_symbol", "main")})


@pytest.mark.parametrize(
    "length, dtype, scope, stack",
    [
        (4, "float32", "local", True),
        (MOST // 4, "float32", "local", True),
        (MOST // 4 + 1, "float32", "local", False),
        (MOST // 8 + 1, "float64", "local", False),
        (MOST, "int8", "local", True),
        (512, "float32", "global", False),  # below 1 KiB TVM itself takes the stack
    ],
)
def test_small_local_buffers_are_on_the_stack(length, dtype, scope, stack):
    library = build(module(sums(length, dtype, scope)), AVX2)
    code = library.inspect_source("ll")
    assert (f"load ptr, ptr @__{WORKSPACE}" not in code) == stack
    x = np.arange(length + 7).astype(dtype)
    y = tvm.runtime.tensor(np.zeros(length, dtype))
    tvm.runtime.Executable(library).jit()["main"](tvm.runtime.tensor(x), y)
    expected = sum(x[j : j + length] for j in range(8)).astype(dtype)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_buffers_of_vectors_count_all_their_lanes():
    """Storage may be rewritten to values of 16 lanes: 64 of these are 4 KiB, 65 are more."""
    for count, stack in ((64, True), (65, False)):
        buffer = tirx.decl_buffer((count,), "float32x16", "total", scope="local")
        func = tirx.PrimFunc([], tirx.AllocBuffer(buffer))
        done = small_buffers_on_stack(tvm.IRModule({"main": func}))["main"]
        assert isinstance(done.body, tirx.DeclBuffer if stack else tirx.AllocBuffer)


def test_buffers_of_unknown_size_are_left_alone():
    length = tirx.Var("n", "int64")
    func = tirx.PrimFunc(
        [length], tirx.AllocBuffer(tirx.decl_buffer((length,), "float32", "total", scope="local"))
    )
    done = small_buffers_on_stack(tvm.IRModule({"main": func}))["main"]
    assert isinstance(done.body, tirx.AllocBuffer)
