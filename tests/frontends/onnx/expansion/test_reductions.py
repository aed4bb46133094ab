"""Largest, smallest and log-sum-exp of rows of infinities, of truth values, of rows with NaN."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.frontends.onnx.expansion.test_walk import operators, same
from tests.frontends.onnx.running import Array, assert_same, typed_model

NAN, INF = np.nan, np.inf
ROWS = np.array([[1, 2, 3], [-INF, -INF, -INF], [INF, INF, INF], [0, -INF, INF]], np.float32)
REDUCED = ["ReduceMax", "ReduceMin", "ReduceLogSumExp"]
CUT = {"int32": [-2, -4], "int64": [-2, -4], "uint32": [4, 5]}
AXES = {"one": np.array([1]), "all": np.array([0, 1]), "last": np.array([-1])}


def test_rows_of_infinities_have_their_extremes_and_sums() -> None:
    nodes = [
        helper.make_node(name, ["x", axes], [f"{name}_{axes}{keep}"], keepdims=keep)
        for name in REDUCED
        for axes, keep in (("one", 1), ("all", 0), ("last", 0))
    ]
    nodes += [helper.make_node(name, ["x"], [name], axis=1) for name in ("ArgMax", "ArgMin")]
    model = typed_model(nodes, {"x": ROWS}, AXES)
    same(model, {"x": ROWS})
    assert_same(model, {"x": ROWS})


def test_nan_is_skipped_by_an_extreme_wherever_it_stands() -> None:
    x = np.array([[1, NAN, 3], [NAN, 2, 1], [3, 2, NAN]], np.float32)
    nodes = [helper.make_node(n, ["x", "last"], [n], keepdims=0) for n in REDUCED[:2]]
    nodes += [
        helper.make_node(n, ["x"], [n], axis=1, keepdims=0, select_last_index=last)
        for n, last in (("ArgMax", 0), ("ArgMin", 1))
    ]
    expected = [
        np.array([3, 2, 3], np.float32), np.array([1, 1, 2], np.float32),
        np.array([2, 1, 0]), np.array([0, 2, 1]),
    ]  # fmt: skip
    assert_same(typed_model(nodes, {"x": x}, AXES), {"x": x}, expected)


def test_the_largest_of_truth_values_is_that_of_bytes() -> None:
    x = np.array([[True, False], [False, False], [True, True]])
    nodes = [helper.make_node(n, ["x", "one"], [n], keepdims=0) for n in REDUCED[:2]]
    model = typed_model(nodes, {"x": x}, AXES, opset=20)
    made = ["Cast", "ReduceMax", "Cast", "Cast", "ReduceMin", "Cast"]
    assert operators(same(model, {"x": x})) == made
    assert_same(model, {"x": x}, [x.any(1), x.all(1)])


def test_sums_of_half_precision_are_made_in_single_precision() -> None:
    x = np.full((2, 4096), 0.1, np.float16)
    nodes = [
        helper.make_node("ReduceSum", ["x", "last"], ["sum"]),
        helper.make_node("ReduceMean", ["x", "last"], ["mean"]),
        helper.make_node("Softmax", ["x"], ["share"]),
    ]
    assert_same(typed_model(nodes, {"x": x}, AXES), {"x": x}, rtol=1e-3)


def test_a_single_number_has_no_axes_to_sum_over() -> None:
    """In opset 13 axes are an attribute, which has no empty list."""
    x = np.array(0.75, np.float32)
    for keep in (0, 1):
        node = helper.make_node("ReduceLogSumExp", ["x"], ["y"], keepdims=keep)
        assert_same(typed_model([node], {"x": x}, opset=13), {"x": x})


def test_the_mean_of_integers_is_of_their_type_and_cut() -> None:
    feeds: dict[str, Array] = {t: np.array([[-7, 2], [1, -9]], t) for t in ("int32", "int64")}
    feeds["uint32"] = np.array([[7, 2], [1, 9]], np.uint32)
    nodes = [
        helper.make_node("ReduceMean", [x, "one"], [f"y{x}{keep}"], keepdims=keep)
        for x in feeds
        for keep in (0, 1)
    ]
    means: list[Array] = [np.array(CUT[x], x) for x in feeds]
    expected = [mean.reshape(dims) for mean in means for dims in (2, (2, 1))]
    assert_same(typed_model(nodes, feeds, AXES), feeds, expected)


def test_over_no_axes_each_element_is_a_sum_of_one() -> None:
    """onnx: what is not reduced is mapped as its sum would be."""
    x = np.array([[-2, 3, 0.5]], np.float32)
    none = np.array([], np.int64)
    mapped = {
        "ReduceL1": np.abs(x), "ReduceL2": np.abs(x), "ReduceSumSquare": x * x,
        "ReduceLogSum": np.log(np.abs(x)), "ReduceSum": x, "ReduceLogSumExp": x,
    }  # fmt: skip
    nodes = [helper.make_node("Abs", ["x"], ["positive"])]
    for name in mapped:
        source = "positive" if name == "ReduceLogSum" else "x"
        for number, operands in enumerate(([source], [source, "none"])):
            nodes.append(
                helper.make_node(name, operands, [f"{name}{number}"], noop_with_empty_axes=1)
            )
    model = typed_model(nodes, {"x": x}, {"none": none})
    assert_same(model, {"x": x}, [each for each in mapped.values() for _ in range(2)])


def test_the_logarithm_of_a_power_of_a_whole_number_is_that_number() -> None:
    """It was 7 of 8: the logarithm is 7.999999, and cut off."""
    x = np.array([8, 1, 5], np.int32)
    node = helper.make_node("ReduceLogSumExp", ["x"], ["y"], noop_with_empty_axes=1)
    assert_same(typed_model([node], {"x": x}), {"x": x}, [x])
