"""Activations keep NaN and infinities, and hyperbolic functions are exact near 0 and far off."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.expansion.test_walk import operators, same
from tests.frontends.onnx.running import assert_same, typed_model

AWKWARD = np.array([np.nan, -np.inf, np.inf, -1.5, -0.5, 0, -0.0, 0.5, 1.5, 3], np.float32)


def test_activations_of_awkward_numbers_are_those_of_onnx_runtime() -> None:
    names = ["Sign", "ThresholdedRelu", "HardSigmoid", "Relu", "Elu", "Selu", "Celu", "HardSwish"]
    nodes = [helper.make_node(name, ["x"], [name]) for name in names]
    model = typed_model(nodes, {"x": AWKWARD})
    assert not {"Sign", "ThresholdedRelu"} & set(operators(same(model, {"x": AWKWARD})))
    assert_same(model, {"x": AWKWARD})


def test_each_infinity_is_found_alone() -> None:
    nodes = [
        helper.make_node("IsInf", ["x"], [f"y{p}{n}"], detect_positive=p, detect_negative=n)
        for p in (0, 1)
        for n in (0, 1)
    ]
    graph = same(typed_model(nodes, {"x": AWKWARD}, opset=20), {"x": AWKWARD})
    assert operators(graph) == ["Less", "Equal", "Equal", "IsInf"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_hyperbolic_functions_are_exact_over_the_whole_range(dtype: str) -> None:
    most = {"float16": 11, "float32": 89, "float64": 700}[dtype]
    wide = np.concatenate([np.linspace(-most, most, 99), np.geomspace(1e-7, 1, 40), AWKWARD[:3]])
    x = wide.astype(dtype)
    nodes = [helper.make_node(name, ["x"], [name]) for name in ("Sinh", "Cosh")]
    model = typed_model(nodes, {"x": x})
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        expected = [np.sinh(wide).astype(dtype), np.cosh(wide).astype(dtype)]
    rtol = 2e-3 if dtype == "float16" else 2e-6 if dtype == "float32" else 1e-13
    assert_same(model, {"x": x}, expected, rtol=rtol, atol=0)


def test_the_celu_of_a_scalar_is_a_scalar() -> None:
    x = np.array(-1.5, np.float32)
    nodes = [
        helper.make_node("Celu", ["x"], ["c"], alpha=0.25),
        helper.make_node("Min", ["x", "c"], ["y"]),
    ]
    assert_same(typed_model(nodes, {"x": x}), {"x": x})


def test_narrow_elus_are_computed_in_float32() -> None:
    x = np.linspace(-4, 4, 33).astype(np.float16)
    wide = x.astype(np.float32)
    nodes = [
        helper.make_node("Elu", ["x"], ["elu"], alpha=0.5),
        helper.make_node("Celu", ["x"], ["celu"]),
    ]
    wanted = [np.where(wide < 0, factor * np.expm1(wide), wide) for factor in (0.5, 1.0)]
    model = typed_model(nodes, {"x": x}, opset=28)
    assert_same(model, {"x": x}, [y.astype(np.float16) for y in wanted], rtol=2e-3)


def test_the_sign_of_what_has_none_is_whether_it_is_there() -> None:
    feeds = {t: np.array([0, 1, 200], t) for t in ("uint8", "uint16", "uint32", "uint64")}
    nodes = [helper.make_node("Sign", [name], [f"y{name}"]) for name in feeds]
    assert_same(typed_model(nodes, feeds), feeds)


@pytest.mark.parametrize("name", ["Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh"])
def test_inverse_functions_of_half_precision_are_computed_in_float32(name: str) -> None:
    x = (np.array([1.5, 2, 3]) if name == "Acosh" else np.array([-0.5, 0.25, 0.75])).astype(
        np.float16
    )
    numpy_name = name.lower().replace("a", "arc", 1)
    expected = getattr(np, numpy_name)(x.astype(np.float32)).astype(np.float16)
    model = typed_model([helper.make_node(name, ["x"], ["y"])], {"x": x}, opset=22)
    assert_same(model, {"x": x}, [expected], rtol=2e-3)
