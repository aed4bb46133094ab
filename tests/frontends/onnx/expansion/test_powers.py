"""Pow of any two types, and Mod of floating numbers, as ONNX Runtime and NumPy have them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.expansion.test_walk import operators, same
from tests.frontends.onnx.running import Array, assert_same, evaluate, typed_model

BASES = [1, 2, 3, -3, 0]
EXPONENTS = [4, 5, 2, 3, 0]
TYPES = ["float32", "float64", "int32", "int64"]


def test_a_power_is_of_the_type_of_its_base() -> None:
    feeds: dict[str, Array] = {f"b_{t}": np.array(BASES, t) for t in TYPES}
    feeds |= {f"e_{t}": np.array(EXPONENTS, t) for t in TYPES}
    nodes = [
        helper.make_node("Pow", [f"b_{one}", f"e_{other}"], [f"y_{one}_{other}"])
        for one, other in itertools.product(TYPES, TYPES)
    ]
    model = typed_model(nodes, feeds)
    same(model, feeds)
    assert_same(model, feeds)


def test_a_whole_constant_power_of_integers_is_a_product() -> None:
    x = np.array([3, -7, 2**20 + 1])
    model = typed_model([helper.make_node("Pow", ["x", "n"], ["y"])], {"x": x}, {"n": np.array(3)})
    assert operators(same(model, {"x": x})) == ["Mul", "Mul", "Identity"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_remainder_has_the_divisors_sign_and_infinities(dtype: str) -> None:
    x = np.array([5.5, -5.5, 0, np.inf, np.nan, 3, 1, -1, 7.5, -7.5, 5], dtype)
    y = np.array([3, 3, 1, 2, 1, np.inf, -np.inf, np.inf, -2, 2, -3], dtype)
    model = typed_model([helper.make_node("Mod", ["x", "d"], ["y"])], {"x": x, "d": y}, opset=13)
    with np.errstate(all="ignore"):
        assert_same(model, {"x": x, "d": y}, evaluate(model, {"x": x, "d": y}), rtol=1e-3)


def test_exponents_that_are_no_numbers_are_powers_like_others() -> None:
    x = np.array([0.5, 2, -3, 0, 1], np.float32)
    exponents = {"nan": np.nan, "inf": np.inf, "minus": -np.inf}
    nodes = [helper.make_node("Pow", ["x", name], [f"y{name}"]) for name in exponents]
    constants = {name: np.array(value, np.float32) for name, value in exponents.items()}
    assert_same(typed_model(nodes, {"x": x}, constants), {"x": x})


def test_roots_of_minus_infinity_and_minus_zero_are_those_of_pow() -> None:
    x = np.array([-np.inf, np.inf, -0.0, 0.0, 4, np.nan], np.float32)
    exponents = (0.5, 0.75, 1.5, -0.5, -1.25, 2, 3)
    nodes = [helper.make_node("Pow", ["x", f"e{e}"], [f"y{e}"]) for e in exponents]
    constants = {f"e{e}": np.array(e, np.float32) for e in exponents}
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        # As C has it, and ONNX Runtime. NumPy takes a square root for an exponent of 1/2 alone.
        expected = [np.float_power(wide, np.full(6, e)).astype(np.float32) for e in exponents]
    expected[0][0] = np.inf
    assert_same(typed_model(nodes, {"x": x}, constants), {"x": x}, expected)
