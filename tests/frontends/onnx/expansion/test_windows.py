"""Pads that follow from shapes, transposed convolutions of given shapes, paddings by any value."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, helper

from tests.frontends.onnx.expansion.test_walk import operators, same
from tests.frontends.onnx.models import make, run
from tests.frontends.onnx.running import Array, assert_same, evaluate, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1, 4, 5, 6)).astype(np.float32)
W = {"w": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)}
FILTER = {"w": RNG.standard_normal((6, 4, 3, 2)).astype(np.float32)}


def test_same_padding_is_written_out_on_the_side_it_is_on() -> None:
    nodes = [
        helper.make_node(
            operator,
            ["x", "w"] if operator == "Conv" else ["x"],
            [f"{operator}_{mode}"],
            auto_pad=mode,
            kernel_shape=[3, 2],
            strides=[2, 1],
        )
        for operator in ("Conv", "MaxPool", "AveragePool", "LpPool")
        for mode in ("SAME_UPPER", "SAME_LOWER")
    ]
    graph = same(typed_model(nodes, {"x": X}, FILTER), {"x": X})
    assert not any(a.name == "auto_pad" for node in graph.nodes for a in node.attribute)
    assert_same(typed_model(nodes, {"x": X}, FILTER), {"x": X}, rtol=1e-4, atol=1e-5)


SHAPES = [
    {"strides": [2, 2], "output_shape": [10, 12]},
    {"strides": [3, 2], "output_shape": [14, 13]},
    {"strides": [3, 2], "output_shape": [16, 14]},
    {"strides": [2, 2], "output_shape": [10, 12], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 3], "auto_pad": "SAME_LOWER", "dilations": [2, 1]},
    # Windows that do not meet, what onnx adds to SAME, and less than the operand has.
    {"strides": [5, 6], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 3], "auto_pad": "SAME_LOWER", "output_padding": [1, 2]},
    {"strides": [1, 2], "output_shape": [4, 9]},
]


def test_a_transposed_convolution_makes_the_shape_it_is_asked_for() -> None:
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], [f"y{n}"], **attributes)
        for n, attributes in enumerate(SHAPES)
    ]
    model = typed_model(nodes, {"x": X}, W)
    same(model, {"x": X})
    assert_same(model, {"x": X}, rtol=1e-4, atol=1e-5)


def test_a_shape_that_no_padding_makes_is_refused() -> None:
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], "up", strides=[2, 2], output_shape=[13, 15]
    )
    with pytest.raises(ModelError, match=r"'up' \(ConvTranspose\) has output_shape \[13, 15\]"):
        from_onnx(typed_model([node], {"x": X}, W))


def test_what_is_padded_may_be_computed_and_what_is_cut_comes_first() -> None:
    constants: dict[str, Array] = {
        "grown": np.array([0, 0, 1, 2, 0, 0, -2, 1]),
        "cut": np.array([0, 0, -1, 2, 0, 0, 2, -1]),
        "two": np.array([1, -2, 2, 1]),
        "axes": np.array([-1, 2]),
    }
    feeds = {"x": X, "v": np.array(-3, np.float32)}
    nodes: list[NodeProto] = [
        helper.make_node("Pad", ["x", "grown", "v"], ["y0"]),
        helper.make_node("Pad", ["x", "two", "v", "axes"], ["y1"]),
        helper.make_node("Pad", ["x", "cut"], ["y2"], mode="wrap"),
    ]
    model = typed_model(nodes, feeds, constants, opset=19)
    same(model, feeds)
    assert_same(model, feeds)


def test_blocks_go_into_depth_by_either_order() -> None:
    x = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    nodes = [
        helper.make_node("SpaceToDepth", ["x"], [mode], blocksize=2, mode=mode)
        for mode in ("DCR", "CRD")
    ]
    model = typed_model(nodes, {"x": x}, opset=28)
    model.ir_version = 14
    assert_same(model, {"x": x}, evaluate(model, {"x": x}))


def test_regions_are_scaled_before_they_move_by_half_a_pixel() -> None:
    regions = np.array([[0, 0, 3, 3], [1, 0.5, 5, 4.2]], np.float32)
    node = helper.make_node(
        "RoiAlign", ["x", "r", "i"], ["y"], spatial_scale=0.7, sampling_ratio=2, output_width=2
    )
    feeds = {"x": X, "r": regions}
    model = typed_model([node], feeds, {"i": np.array([0, 0])})
    assert operators(same(model, feeds)) == ["Mul", "RoiAlign"]


@pytest.mark.parametrize("step", [1e-300, 0.0])
def test_a_range_of_more_steps_than_can_be_counted_is_refused(step: float) -> None:
    """It had no elements."""
    constants = {"a": np.array(0.0), "b": np.array(1.0), "c": np.array(step)}
    nodes = [
        helper.make_node("Range", ["a", "b", "c"], ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=1),
    ]
    model = make(nodes, {"x": [1]}, ["y"], constants)
    with pytest.raises(ModelError, match=r"more steps than can be counted"):
        from_onnx(model)


@pytest.mark.parametrize(("start", "limit"), [(0, -(2**63)), (0, 0), (5, 3)])
def test_a_range_that_leads_away_from_its_limit_is_empty(start: int, limit: int) -> None:
    constants = {"a": np.array(start), "b": np.array(limit), "c": np.array(1)}
    nodes = [
        helper.make_node("Range", ["a", "b", "c"], ["r"]),
        helper.make_node("Cast", ["r"], ["f"], to=1),
        helper.make_node("Concat", ["x", "f"], ["y"], axis=0),
    ]
    feeds = {"x": np.array([1.0], np.float32)}
    same(typed_model(nodes, feeds, constants), feeds)


@pytest.mark.parametrize(
    ("mode", "pads"),
    [("reflect", [5, 0, 0, 0]), ("reflect", [-1, 0, 4, 0]), ("edge", [0, -6, 0, 1])],
)
def test_no_more_is_repeated_than_there_is(mode: str, pads: list[int]) -> None:
    node = helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)
    model = typed_model([node], {"x": X[0, 0]}, {"p": np.array(pads)})
    with pytest.raises(ModelError, match=f"in mode {mode}, and has"):
        from_onnx(model)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_a_line_of_one_element_is_reflected_onto_itself(mode: str) -> None:
    """Between its corners lies nothing to divide by; in the other direction there is something."""
    grid = np.random.default_rng(0).uniform(-1.5, 1.5, (2, 3, 4, 2)).astype(np.float32)
    given = {"mode": mode, "padding_mode": "reflection", "align_corners": 1}
    narrow = X[:, :, :, :1]
    feeds = {"x": narrow, "g": np.concatenate([grid] * 2)[: len(X)]}
    node = helper.make_node("GridSample", ["x", "g"], ["y"], **given)
    model = typed_model([node], feeds, opset=20)
    wide = feeds | {"x": np.concatenate([narrow] * 4, 3)}
    doubled = typed_model([node], wide, opset=20)
    assert_same(model, feeds, run(doubled, wide), rtol=1e-4, atol=1e-4)
