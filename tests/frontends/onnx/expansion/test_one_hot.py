"""OneHot and EyeLike beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.frontends.onnx.running import Array, assert_same, typed_model


def one_hot(indices: Array, off: float, on: float, axis: int) -> Array:
    """What the specification says of six places."""
    places = np.where(indices < 0, indices + 6, indices)
    hit = np.expand_dims(places, axis) == np.arange(6).reshape(
        [6 if n == axis % (indices.ndim + 1) else 1 for n in range(indices.ndim + 1)]
    )
    return np.where(hit, on, off)


def test_indices_choose_their_places_and_those_out_of_range_none() -> None:
    nodes, feeds = [], {}
    wanted: list[Array] = []
    constants: dict[str, Array] = {
        "depth": np.array([6]),
        "float_depth": np.array(6.0, np.float32),
        "values": np.array([-1, 2], np.float32),
        "whole": np.array([0, 1]),
    }
    for kind in ("int64", "int32", "float32", "uint8"):
        indices = np.array([[0, 5, -1], [-6, 6, -7]])
        feeds[kind] = (np.abs(indices) if kind == "uint8" else indices).astype(kind)
        nodes += [
            helper.make_node("OneHot", [kind, "depth", "values"], [f"last_{kind}"]),
            helper.make_node("OneHot", [kind, "float_depth", "whole"], [f"first_{kind}"], axis=0),
            helper.make_node("OneHot", [kind, "depth", "values"], [f"mid_{kind}"], axis=-2),
        ]
        given = feeds[kind].astype(np.int64)
        wanted += [
            one_hot(given, -1, 2, -1).astype(np.float32),
            one_hot(given, 0, 1, 0).astype(np.int64),
            one_hot(given, -1, 2, -2).astype(np.float32),
        ]
    assert_same(typed_model(nodes, feeds, constants), feeds, wanted)


def test_ones_stand_on_a_diagonal_of_the_type_that_is_asked_for() -> None:
    x = np.zeros((3, 4), np.float32)
    nodes = [
        helper.make_node("EyeLike", ["x"], ["plain"]),
        helper.make_node("EyeLike", ["x"], ["upper"], k=1),
        helper.make_node("EyeLike", ["x"], ["lower"], k=-1, dtype=TensorProto.INT64),
        *(
            helper.make_node("Neg", [name], [f"minus_{name}"])
            for name in ("plain", "upper", "lower")
        ),
        helper.make_node("Add", ["x", "minus_upper"], ["y"]),
        helper.make_node("Mul", ["x", "minus_plain"], ["z"]),
        helper.make_node("Add", ["cast", "minus_lower"], ["w"]),
        helper.make_node("Cast", ["x"], ["cast"], to=TensorProto.INT64),
    ]
    nodes.insert(-2, nodes.pop())
    assert_same(typed_model(nodes, {"x": x}), {"x": x})


def test_what_the_reference_evaluator_fails_on_is_folded_all_the_same() -> None:
    """A depth that is a list of one; a mean whose first operand is not the largest (onnx 1.23)."""
    x = np.arange(3, dtype=np.float32)
    constants: dict[str, Array] = {
        "depth": np.array([4]),
        "values": np.array([0, 1], np.float32),
        "places": np.array([1, -1, 7]),
        "two": np.array([-2], np.float32),
    }
    nodes = [
        helper.make_node("OneHot", ["places", "depth", "values"], ["hot"], axis=0),
        helper.make_node("Mean", ["two", "hot"], ["mean"]),
        helper.make_node("Add", ["x", "mean"], ["y"]),
        helper.make_node("Add", ["x", "hot"], ["z"]),
    ]
    hot = one_hot4(constants["places"])
    assert_same(typed_model(nodes, {"x": x}, constants), {"x": x}, [x + (hot - 2) / 2, x + hot])


def one_hot4(places: Array) -> Array:
    """Four places along axis 0."""
    return (np.where(places < 0, places + 4, places) == np.arange(4)[:, None]).astype(np.float32)
