"""Operators that make as much as they find, beside ONNX Runtime: each input another size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import Array, executor, place, typed_model
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx

RNG = np.random.default_rng(0)
NODE = helper.make_node


def test_places_and_elements_are_as_many_as_there_are() -> None:
    feeds: dict[str, Array] = {
        "x": np.zeros((3, 4, 5), np.float32),
        "keep": np.zeros(4, bool),
        "few": np.zeros(2, bool),
    }
    nodes = [
        NODE("NonZero", ["x"], ["places"]),
        NODE("NonZero", ["keep"], ["truths"]),
        NODE("Compress", ["x", "keep"], ["middle"], axis=1),
        NODE("Compress", ["x", "few"], ["first"], axis=0),
        NODE("Compress", ["x", "keep"], ["flat"]),
    ]
    model = typed_model(nodes, feeds)
    with executor(model) as ex:
        assert ex.outputs == ("places", "truths", "middle", "first", "flat")
        for share in (0.0, 0.3, 1.0, 0.6):
            feeds["x"] = (RNG.random((3, 4, 5)) < share).astype(np.float32) * 3
            feeds["keep"], feeds["few"] = RNG.random(4) < share, RNG.random(2) < share
            for name, got, want in zip(ex.outputs, ex.run(feeds), run(model, feeds), strict=True):
                np.testing.assert_array_equal(got.numpy(), want, err_msg=name)


def test_each_element_comes_once_by_size_or_by_its_first_place() -> None:
    feeds: dict[str, Array] = {"x": np.zeros((4, 9), np.float32), "n": np.zeros(20, np.int64)}
    ends = ("values", "first", "which", "times")
    nodes = [
        NODE("Unique", ["x"], [f"sorted_{end}" for end in ends]),
        NODE("Unique", ["x"], [f"met_{end}" for end in ends], sorted=0),
        NODE("Unique", ["n"], ["along"], axis=0),
        NODE("Unique", ["n"], ["whole", "", "", "whole_times"], sorted=0),
    ]
    model = typed_model(nodes, feeds)
    with executor(model) as ex:
        for most in (1, 4, 30):
            feeds["x"] = RNG.integers(-most, most, (4, 9)).astype(np.float32)
            feeds["n"] = RNG.integers(0, most, 20)
            for name, got, want in zip(ex.outputs, ex.run(feeds), run(model, feeds), strict=True):
                np.testing.assert_array_equal(got.numpy(), want, err_msg=name)


def test_slices_that_are_compared_are_refused() -> None:
    node = NODE("Unique", ["x"], ["y"], axis=0, name="rows")
    with pytest.raises(ModelError, match=r"'rows' \(Unique\) compares slices along an axis"):
        from_onnx(typed_model([node], {"x": np.zeros((3, 4), np.float32)}))


# Batches, classes, boxes, most of a class, least score, whether boxes are around their center.
SUPPRESSIONS = [(2, 3, 60, 9, 0.3, 0), (1, 5, 80, 100, 0.25, 1), (1, 2, 50, 1000, None, 0)]


@pytest.mark.parametrize("case", SUPPRESSIONS)
def test_the_boxes_that_are_left_are_those_of_onnx_runtime(
    case: tuple[int, int, int, int, float | None, int],
) -> None:
    batches, classes, count, most, least, center = case
    feeds = {
        "boxes": np.zeros((batches, count, 4), np.float32),
        "scores": np.zeros((batches, classes, count), np.float32),
    }
    constants: dict[str, Array] = {"most": np.array([most]), "iou": np.array([0.5], np.float32)}
    if least is not None:
        constants["least"] = np.array([least], np.float32)
    node = NODE("NonMaxSuppression", [*feeds, *constants], ["y"], center_point_box=center)
    model = typed_model([node], feeds, constants)
    sizes = set()
    with executor(model) as ex:
        for top in (0.2, 0.5, 1.0):
            # Whole numbers: many boxes touch, are equal, or have a score in common.
            at, size = RNG.integers(0, 30, (2, batches, count, 2))
            boxes = np.concatenate([at, size if center else at + size - 5], -1)
            feeds["boxes"] = boxes.astype(np.float32)
            scores = RNG.random((batches, classes, count)) * top
            feeds["scores"] = scores.round(1).astype(np.float32)
            (want,) = run(model, feeds)
            np.testing.assert_array_equal(ex.run(feeds)[0].numpy(), want)
            sizes.add(len(want))
    assert len(sizes) > (1 if least is not None else 0)


def detector() -> tuple[Array, Array, onnx.ModelProto]:
    """The tail that exporters write: boxes, scores and classes of what is chosen, as rows."""
    boxes = RNG.random((1, 40, 4)).astype(np.float32)
    scores = RNG.random((1, 3, 40)).astype(np.float32)
    constants: dict[str, Array] = {
        "most": np.array([10]),
        "iou": np.array([0.3], np.float32),
        "least": np.array([0.4], np.float32),
        "one": np.array([1]),
        "two": np.array([2]),
        "rows": np.array([-1, 1]),
        "scale": np.array([640, 480, 640, 480], np.float32),
    }
    chosen = ["boxes", "scores", "most", "iou", "least"]
    nodes = [
        NODE("NonMaxSuppression", chosen, ["chosen"]),
        NODE("Gather", ["chosen", "two"], ["box_column"], axis=1),
        NODE("Squeeze", ["box_column", "one"], ["box"]),
        NODE("Squeeze", ["boxes", "zero"], ["all_boxes"]),
        NODE("Gather", ["all_boxes", "box"], ["own_boxes"]),
        NODE("Mul", ["own_boxes", "scale"], ["scaled"]),
        NODE("GatherND", ["scores", "chosen"], ["own_scores"]),
        NODE("Reshape", ["own_scores", "rows"], ["score_column"]),
        NODE("Gather", ["chosen", "one"], ["class_column"], axis=1),
        NODE("Cast", ["class_column"], ["class"], to=1),
        NODE("Concat", ["scaled", "score_column", "class"], ["rows_found"], axis=1),
        NODE("Transpose", ["rows_found"], ["columns_found"]),
        NODE("Identity", ["rows_found"], ["found"]),
    ]
    constants["zero"] = np.array([0])
    feeds = {"boxes": boxes, "scores": scores}
    return (
        boxes,
        scores,
        typed_model(nodes, feeds, constants, outputs=["found", "columns_found", "box"]),
    )


def test_what_is_chosen_goes_on_row_by_row(tmp_path: Path) -> None:
    boxes, scores, model = detector()
    build(place(model)).save(tmp_path / "net.hetero")
    with Executor(load_artifact(tmp_path / "net.hetero")) as ex:
        for share in (1.0, 0.5, 0.1):
            feeds = {"boxes": boxes, "scores": scores * share}
            wanted = run(model, feeds)
            for got, want in zip(ex.run(feeds), wanted, strict=True):
                assert got.numpy().dtype == want.dtype
                np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
        assert wanted[0].shape == (0, 6)


def test_what_needs_the_size_or_all_rows_is_refused_by_name() -> None:
    feeds = {"x": np.zeros((3, 4), np.float32)}
    for node in (
        NODE("Shape", ["places"], ["y"], name="size"),
        NODE("ReduceSum", ["places", "axis"], ["y"], name="size"),
        NODE("Softmax", ["floats"], ["y"], axis=1, name="size"),
        NODE("Gather", ["places", "axis"], ["y"], axis=1, name="size"),
        NODE("Slice", ["places", "zero", "axis", "axis"], ["y"], name="size"),
        NODE("Div", ["places", "places"], ["y"], name="size"),
        NODE("Concat", ["places", "places"], ["y"], axis=1, name="size"),
        NODE("Add", ["places", "row"], ["y"], name="size"),
    ):
        nodes = [
            NODE("NonZero", ["x"], ["places"]),
            NODE("Cast", ["places"], ["floats"], to=1),
            node,
        ]
        constants = {"axis": np.array([1]), "zero": np.array([0]), "row": np.zeros((2, 12), int)}
        with pytest.raises(ModelError, match=r"'size' \(\w+\) reads '\w+', whose size the data"):
            from_onnx(typed_model(nodes, feeds, constants, outputs=["y"]))


def test_sizes_that_data_decide_come_in_no_batches() -> None:
    model = typed_model([NODE("NonZero", ["x"], ["y"])], {"x": np.zeros((3, 4), np.float32)})
    with pytest.raises(UsageError, match="do not come in batches"):
        executor(model, batch=2)


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (NODE("Compress", ["x", "square"], ["y"]), r"operand 1 of shape \(2, 2\); expected 1 dim"),
        (NODE("NonMaxSuppression", ["x", "scores", "most"], ["y"]), "expected 3 dim|rank|shape"),
    ],
)
def test_shapes_that_no_inference_looks_at_are_refused(node: onnx.NodeProto, told: str) -> None:
    feeds: dict[str, Array] = {
        "x": np.zeros((3, 4), np.float32),
        "square": np.zeros((2, 2), bool),
        "scores": np.zeros((1, 1, 3), np.float32),
    }
    used = {name: value for name, value in feeds.items() if name in node.input}
    constants = {"most": np.array([3])} if "most" in node.input else {}
    with pytest.raises(ModelError, match=told) as refused:
        from_onnx(typed_model([node], used, constants, outputs=["y"]))
    assert "fault of tvm_hetero" not in str(refused.value)
