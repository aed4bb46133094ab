"""Resize in all modes: places and weights, beside ONNX Runtime and onnx's reference."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

from tests.frontends.onnx.expansion.test_walk import expanded, operators, same
from tests.frontends.onnx.models import make, run, value
from tests.frontends.onnx.running import Array, assert_same, evaluate, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

X = np.random.default_rng(0).standard_normal((1, 2, 4, 5)).astype(np.float32)
MODES = [
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
]  # fmt: skip
SCALES = {
    "twice": np.array([1, 1, 2, 2], np.float32),
    "third": np.array([1, 1, 0.5, 3], np.float32),
    "broken": np.array([1, 1, 0.6, 1.7], np.float32),
}
ROI = {"roi": np.array([0, 0, 0.2, 0.1, 1, 1, 0.8, 1.2], np.float32)}


def resized(name: str, scale: str, **attributes: Any) -> NodeProto:
    return helper.make_node("Resize", ["x", "roi", scale], [name], **attributes)


def interpolations(scales: list[str]) -> list[NodeProto]:
    found = []
    for kind, mode, scale in itertools.product(["linear", "cubic"], MODES, scales):
        given = {"mode": kind, "coordinate_transformation_mode": mode}
        found.append(resized(f"{kind}_{mode}_{scale}", scale, **given))
    return found


def test_what_lies_between_elements_is_weighted_as_onnx_says() -> None:
    nodes = interpolations(list(SCALES))
    model = typed_model(nodes, {"x": X}, {**SCALES, **ROI}, opset=19)
    rewritten = expanded(model).to_model()
    reference = evaluate(model, {"x": X})
    for name, got, want in zip(
        [o.name for o in model.graph.output], run(rewritten, {"x": X}), reference, strict=True
    ):
        assert got.shape == want.shape, name
        np.testing.assert_allclose(got, want, 1e-4, 1e-5, err_msg=name)


def test_nearest_elements_are_those_of_onnx_runtime() -> None:
    roundings = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
    nodes = [
        resized(f"{mode}_{rounding}_{scale}", scale, mode="nearest", nearest_mode=rounding,
                coordinate_transformation_mode=mode)
        for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric")
        for rounding in roundings
        for scale in SCALES
    ]  # fmt: skip
    graph = same(typed_model(nodes, {"x": X}, {**SCALES, **ROI}, opset=19), {"x": X})
    assert "Resize" not in operators(graph)


OPTIONS: list[dict[str, Any]] = [
    {"mode": "linear", "antialias": 1},
    {"mode": "cubic", "antialias": 1},
    {"mode": "cubic", "antialias": 1, "exclude_outside": 1},
    {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
]


def test_filters_and_what_is_outside_are_as_onnx_says() -> None:
    nodes = [
        resized(f"{n}_{scale}", scale, **options)
        for n, options in enumerate(OPTIONS)
        for scale in SCALES
    ]
    model = typed_model(nodes, {"x": X}, {**SCALES, **ROI}, opset=19)
    for got, want in zip(
        run(expanded(model).to_model(), {"x": X}), evaluate(model, {"x": X}), strict=True
    ):
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_sizes_of_some_axes_keep_the_ratio_that_they_are_asked_to() -> None:
    constants = {"z": np.array([7, 8]), "turned": np.array([3, 7])}
    nodes = [
        helper.make_node(
            "Resize", ["x", "", "", "z"], [f"{kind}_{policy}"], mode=kind, axes=[2, 3],
            keep_aspect_ratio_policy=policy,
        )
        for kind in ("nearest", "linear")
        for policy in ("stretch", "not_larger", "not_smaller")
    ]  # fmt: skip
    nodes.append(helper.make_node("Resize", ["x", "", "", "turned"], ["turned_y"], axes=[3, 2]))
    same(typed_model(nodes, {"x": X}, constants, opset=19), {"x": X})


def test_our_kernels_compute_what_the_rewriting_says() -> None:
    volume = np.random.default_rng(1).standard_normal((1, 1, 3, 4, 5)).astype(np.float32)
    feeds: dict[str, Array] = {"x": X, "v": volume, "u": (X * 50 + 100).astype(np.uint8)}
    constants = {**SCALES, **ROI, "volume": np.array([1, 1, 2, 1.5, 0.5], np.float32)}
    nodes = [
        *interpolations(["twice"])[:4],
        resized("nearest", "twice"),
        resized("shrunk", "broken", mode="linear", antialias=1),
        helper.make_node("Resize", ["v", "", "volume"], ["cube"], mode="linear"),
        helper.make_node("Resize", ["v", "", "volume"], ["blocks"]),
        helper.make_node("Resize", ["u", "", "twice"], ["bytes"], mode="linear"),
    ]
    assert_same(typed_model(nodes, feeds, constants, opset=19), feeds, rtol=1e-4, atol=1e-5)


def test_planes_of_whole_factors_stay_with_tvm() -> None:
    model = typed_model([resized("y", "twice", mode="linear")], {"x": X}, {**SCALES, **ROI}, 19)
    assert operators(expanded(model)) == ["Resize"]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_corners_that_are_one_element_are_aligned(mode: str) -> None:
    scales = np.array([1, 1, 2, 1], np.float32)
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode=mode,
        coordinate_transformation_mode="align_corners",
    )  # fmt: skip
    narrow = {"x": X[..., :1]}
    assert_same(typed_model([node], narrow, {"s": scales}), narrow, atol=1e-5)


@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize("kind", ["nearest", "linear"])
def test_old_forms_keep_their_coordinates(opset: int, kind: str) -> None:
    scales = np.array([1, 1, 1.5, 2], np.float32)
    if opset == 7:
        node = helper.make_node("Upsample", ["x"], ["y"], mode=kind, scales=scales.tolist())
    else:
        operator = "Upsample" if opset == 9 else "Resize"
        node = helper.make_node(operator, ["x", "s"], ["y"], mode=kind)
    constants = {} if opset == 7 else {"s": scales}
    model = typed_model([node], {"x": X}, constants, opset)
    model.ir_version = 5
    for constant in model.graph.initializer:
        model.graph.input.append(value(constant.name, constant.dims))
    assert_same(model, {"x": X})


@pytest.mark.parametrize("declared", [None, [1, 1, 5, 10]])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_sizes_are_those_that_float32_makes_of_scales(mode: str, declared: Any) -> None:
    """Of 3 times 5/3 onnx infers 4, since the float32 next to 5/3 is below it."""
    up = helper.make_node("Resize", ["x", "", "s"], ["m"], "up", mode=mode)
    again = helper.make_node("Resize", ["m", "", "s2"], ["y"], mode=mode)
    scales = {"s": np.array([1, 1, 5 / 3, 5 / 3], np.float32)}
    scales["s2"] = np.array([1, 1, 1, 1.6], np.float32)
    model = make([up, again], {"x": [1, 1, 3, 6]}, ["y"], scales, opset=19)
    if declared is not None:
        model = make([up], {"x": [1, 1, 3, 6]}, ["m"], {"s": scales["s"]}, opset=19)
        model.graph.output[0].CopyFrom(value("m", declared))
    (expected,) = run(model, {"x": np.zeros((1, 1, 3, 6), np.float32)})
    body = from_onnx(model)["main"].ret_ty
    assert tuple(int(n) for n in body.shape.values) == expected.shape
    assert expected.shape == (1, 1, 5, 10 if declared else 16)


def test_a_mode_that_onnx_does_not_know_is_refused_by_name() -> None:
    model = typed_model([resized("y", "twice", mode="lanczos")], {"x": X}, {**SCALES, **ROI}, 19)
    with pytest.raises(ModelError, match=r"\(Resize\) has mode = 'lanczos'; one of cubic, linear"):
        from_onnx(model)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_nothing_cannot_be_made_larger(mode: str) -> None:
    """It was a ZeroDivisionError of ours (tests.fuzz.hostile_models, seed 1795830866)."""
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode)
    model = make([node], {"x": [1, 0, 3]}, ["y"], {"sizes": np.array([1, 4, 3])}, opset=19)
    with pytest.raises(ModelError, match=r"\(Resize\) makes 4 elements of axis 1, which has none"):
        from_onnx(model)


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_an_image_of_one_code_stays_one(mode: str, kind: str) -> None:
    """Weights whose sum is 1 but for float32's rounding made fours of fives."""
    x = np.full((1, 1, 3, 7), 5, np.uint8)
    sizes = np.array([1, 1, 8, 11])
    node = helper.make_node(
        "Resize", ["x", "", "", "sizes"], ["y"], mode=kind, coordinate_transformation_mode=mode
    )
    model = typed_model([node], {"x": x}, {"sizes": sizes})
    assert_same(model, {"x": x}, [np.full((1, 1, 8, 11), 5, np.uint8)])


def test_codes_between_codes_are_rounded_and_stay_within_their_type() -> None:
    """A cubic swings beyond what it joins: of 0 and 255 that was 242 or 13 by wrapping around."""
    x = np.array([[[[0, 0, 255, 255, 0, 255]]]], np.uint8)
    scales = np.array([1, 1, 1, 3], np.float32)
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic")
    model = typed_model([node], {"x": x}, {"scales": scales})
    assert_same(model, {"x": x}, evaluate(model, {"x": x}))


def test_what_has_no_elements_left_is_made_of_nothing() -> None:
    scales = np.array([1, 1, 0.3, 2], np.float32)
    for kind in ("nearest", "linear", "cubic"):
        node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=kind)
        model = typed_model([node], {"x": X[:, :, :2]}, {"scales": scales})
        assert_same(model, {"x": X[:, :, :2]}, [np.zeros((1, 2, 0, 10), np.float32)])


def test_operands_without_elements_are_none_also_where_tvm_resizes() -> None:
    constants = {"none": np.zeros(0, np.float32), "sizes": np.array([1, 2, 8, 10])}
    node = helper.make_node(
        "Resize", ["x", "none", "none", "sizes"], ["y"], mode="cubic", cubic_coeff_a=-0.5
    )
    model = typed_model([node], {"x": X}, constants, opset=11)
    assert_same(model, {"x": X}, rtol=1e-4, atol=1e-4)
