"""Integers are divided by whatever stands in memory, and the process lives."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.tir.whole_divisions import guard_divisions

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
DIVISIONS = {
    "trunc": (tirx.truncdiv, lambda a, b: np.trunc(a / np.where(b == 0, 1, b))),
    "floor": (tirx.floordiv, lambda a, b: np.floor(a / np.where(b == 0, 1, b))),
    "mod": (tirx.floormod, lambda a, b: np.mod(a, np.where(b == 0, 1, b))),
    "rem": (tirx.truncmod, lambda a, b: np.fmod(a, np.where(b == 0, 1, b))),
}


def kernel(operation: object, kind: str) -> tirx.PrimFunc:
    """``c[i] = operation(a[i], b[i])``."""
    a, b = (te.placeholder((64,), kind, name) for name in "ab")
    c = te.compute((64,), lambda i: operation(a[i], b[i]), "c")
    return te.create_prim_func([a, b, c])


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8", "int8"])
@pytest.mark.parametrize("name", DIVISIONS)
def test_zero_and_minus_one_divide_as_in_numpy(name: str, kind: str) -> None:
    operation, expected = DIVISIONS[name]
    func = schedule_kernel(kernel(operation, kind), TARGET)
    library = tvm.compile(tvm.IRModule({"main": func.with_attr("target", TARGET)}), TARGET)
    rng, limits = np.random.default_rng(0), np.iinfo(kind)
    a = rng.integers(max(limits.min, -100), 101, 64).astype(kind)
    b = rng.integers(max(limits.min, -3), 4, 64).astype(kind)
    a[0], b[0] = limits.min, limits.max if limits.min == 0 else -1
    arrays = [tvm.runtime.tensor(x) for x in (a, b, np.zeros(64, kind))]
    library["main"](*arrays)
    wanted = np.where(b == 0, 0, expected(a.astype(float), b.astype(float)))
    found = arrays[2].numpy()
    np.testing.assert_array_equal(found[1:], wanted[1:].astype(kind))
    if limits.min < 0:
        assert found[0] == (limits.min if "div" in operation.__name__ else 0)


def test_divisors_that_are_constants_are_left_alone() -> None:
    a = te.placeholder((64,), "int32", "a")
    func = te.create_prim_func([a, te.compute((64,), lambda i: tirx.floordiv(a[i], 3), "c")])
    assert guard_divisions(func).same_as(func)
