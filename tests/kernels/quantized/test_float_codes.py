"""A code that is a float again at once is never made; the numbers are those that it would give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tests.kernels.helpers import AVX2, AVX512, SSE, runs_here
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.quantized.float_codes import keep_codes_float

Rounded = Callable[[Any], Any]
VALUES = np.array(
    [0, 0.5, 1.5, 2.5, -0.5, 3.4, 127, 128, 255, 256, 1e9, -1e9, np.inf, -np.inf, -128.5, np.nan],
    np.float32,
)


def real(value: float) -> Any:
    return tirx.const(value, "float32")


def code(value: Any, kind: str, low: float, high: float) -> Any:
    """The code of a number as the front end writes it."""
    clipped = tirx.Min(real(high), tirx.Max(real(low), value))
    return tirx.Cast(kind, tirx.Cast("int32", clipped))


def kernel(make: Callable[[Any], Any], dtype: str = "float32") -> tirx.PrimFunc:
    x = te.placeholder(VALUES.shape, dtype, "x")
    y = te.compute(x.shape, lambda i: make(x[i]), name="y")
    return te.create_prim_func([x, y]).with_attr("global_symbol", "main")


def casts(func: tirx.PrimFunc) -> int:
    return func.script().count("T.Cast(")


@pytest.mark.parametrize(("kind", "low", "high"), [("uint8", 0, 255), ("int8", -128, 127)])
@pytest.mark.parametrize("target", [AVX512, AVX2, SSE])
@pytest.mark.parametrize("zero", [0, 3])
def test_numbers_are_those_of_the_codes(
    kind: str, low: int, high: int, target: tvm.target.Target, zero: int
) -> None:
    if not runs_here(target):
        pytest.skip("other vectors")
    func = kernel(
        lambda x: tirx.Cast("float32", code(tirx.nearbyint(x) + real(zero), kind, low, high))
    )
    scheduled = schedule_kernel(func, target)
    assert casts(scheduled) == 0
    library = build(tvm.IRModule({"main": scheduled.with_attr("global_symbol", "main")}), target)
    found = tvm.runtime.empty(VALUES.shape, "float32")
    library["main"](tvm.runtime.tensor(VALUES), found)
    expected = np.clip(np.rint(VALUES) + zero, low, high)
    expected[-1] = low  # of NaN the least code, as ONNX Runtime's
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: tirx.Cast("float32", code(x, "uint8", 0, 255)),
        lambda x: tirx.Cast("float32", code(tirx.nearbyint(x) + real(0.5), "uint8", 0, 255)),
        lambda x: tirx.Cast("float32", code(tirx.nearbyint(x), "uint8", 0, 256)),
        lambda x: tirx.Cast("float32", code(tirx.nearbyint(x), "int8", -129, 127)),
        lambda x: tirx.Cast("float32", code(tirx.nearbyint(x), "int8", -7.5, 7)),
        lambda x: tirx.Cast("int32", code(tirx.nearbyint(x), "uint8", 0, 255)),
        lambda x: tirx.Cast("float32", tirx.Cast("uint8", tirx.nearbyint(x))),
    ],
    ids=["not rounded", "half added", "beyond", "below", "bound not whole", "stays whole", "free"],
)
def test_what_may_be_another_number_is_converted(make: Rounded) -> None:
    func = kernel(make)
    assert keep_codes_float(func).same_as(func)


def test_a_narrower_clip_is_kept() -> None:
    func = kernel(lambda x: tirx.Cast("float32", code(tirx.nearbyint(x), "uint8", 3, 9)))
    text = keep_codes_float(func).script()
    assert "T.Cast(" not in text
    assert "T.float32(3.0)" in text and "T.float32(9.0)" in text
