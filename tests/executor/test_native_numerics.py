"""The guard that names the first task whose output is not finite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tvm

from tests.executor.kernel_plans import (
    FLOATS,
    SIZE,
    KernelPlan,
    aligned,
    call,
    view,
)
from tvm_hetero.errors import NumericsError

VALUES = np.arange(SIZE, dtype="float32")


def overflowing(dtype: str) -> tuple[KernelPlan, Any]:
    """Doubles twice by way of scratch; the second time value 5 overflows."""
    plan = KernelPlan()
    x = plan.vector(dtype=dtype)
    kernel = "twice" if dtype == "float32" else f"twice_{dtype}"
    width = tvm.DataType(dtype).bits // 8
    calls = [
        call(kernel, view("in", 0, dtype=dtype), view("scratch", 0, dtype=dtype), task="first"),
        call(kernel, view("scratch", 0, dtype=dtype), view("out", 0, dtype=dtype), task="second"),
    ]
    [out] = plan.kernels([x], calls, scratch=width * SIZE, dtype=dtype)
    largest = {"float16": 2.0**14, "float64": 2.0**1022}.get(dtype, 2.0**126)
    return plan.output(out), largest


@pytest.mark.parametrize("dtype", ["float32", *FLOATS])
def test_the_first_task_that_is_not_finite_is_named(dtype: str) -> None:
    plan, largest = overflowing(dtype)
    executor = plan.create()
    values = np.ones(SIZE)
    values[5] = -largest
    executor.set_input("x", aligned(values, dtype))
    executor.run()  # nobody has asked
    executor.check_numerics(True)
    found = rf"task 'second' .* 1 of 32 values of {dtype}\[32\], the first -inf at \[5\]"
    with pytest.raises(NumericsError, match=rf"{found}; its inputs were finite"):
        executor.run()
    values[5] = 1
    executor.set_input("x", aligned(values, dtype))
    executor.run()
    values[[3, 9]] = math.nan
    executor.set_input("x", aligned(values, dtype))
    with pytest.raises(NumericsError, match=r"'first' .* 2 of 32 .* nan at \[3\]; its input 0 was"):
        executor.run()
    executor.check_numerics(False)
    executor.run()


def test_the_place_of_what_is_not_finite_has_all_axes() -> None:
    plan = KernelPlan()
    x = plan.vector()
    [out] = plan.kernels([x], [call("transpose", view("in", 0, (4, 8)), view("out", 0, (8, 4)))])
    executor = plan.output(out).create()
    executor.check_numerics(True)
    values = VALUES.copy()
    values[13] = math.inf  # [1, 5] of the input
    executor.set_input("x", aligned(values))
    found = r"first inf at \[5, 1\].*input 0 .*first inf at \[1, 5\]"
    with pytest.raises(NumericsError, match=found):
        executor.run()
