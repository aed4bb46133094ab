"""Col2Im and DeformConv beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import Array, assert_same, compute, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

# Image, block, attributes; as many columns as the block has places.
BLOCKS: dict[str, tuple[list[int], list[int], int, dict[str, Any]]] = {
    "plain": ([5, 6], [1, 5], 10, {}),
    "strided": ([6, 7], [2, 3], 9, {"strides": [2, 2]}),
    "padded": ([5, 5], [3, 3], 15, {"pads": [1, 0, 1, 0]}),
    "dilated": ([6, 6], [2, 2], 20, {"dilations": [1, 2]}),
    "volume": ([3, 4, 4], [2, 2, 3], 12, {}),
}


def test_overlapping_blocks_are_added() -> None:
    rng = np.random.default_rng(0)
    nodes, feeds = [], {}
    constants: dict[str, Array] = {}
    for name, (image, block, columns, attributes) in BLOCKS.items():
        feeds[name] = rng.standard_normal((2, 3 * int(np.prod(block)), columns)).astype(np.float32)
        constants |= {f"image_{name}": np.array(image), f"block_{name}": np.array(block)}
        given = [name, f"image_{name}", f"block_{name}"]
        nodes.append(helper.make_node("Col2Im", given, [f"y_{name}"], **attributes))
    assert_same(typed_model(nodes, feeds, constants), feeds)


def test_columns_that_no_image_has_are_refused() -> None:
    constants = {"image": np.array([5, 5]), "block": np.array([1, 5])}
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"])
    model = typed_model([node], {"x": np.zeros((1, 5, 4), np.float32)}, constants)
    with pytest.raises(ModelError, match="5 are expected"):
        from_onnx(model)


def deformed(attributes: dict[str, Any], parts: int, groups: int) -> tuple[Any, dict[str, Array]]:
    """A deformable convolution with a mask and a bias, and inputs for it."""
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    side = (7 + 2 - 3) // attributes["strides"][0] + 1
    feeds = {
        "x": normal(2, 4, 7, 7),
        "offset": 2 * normal(2, parts * 18, side, side),
        "mask": normal(2, parts * 9, side, side),
    }
    constants = {"w": normal(6, 4 // groups, 3, 3), "b": normal(6)}
    all_of = {"pads": [1] * 4, "group": groups, "offset_group": parts, **attributes}
    node = helper.make_node("DeformConv", ["x", "w", "offset", "b", "mask"], ["y"], **all_of)
    return typed_model([node], feeds, constants, opset=19), feeds


@pytest.mark.parametrize(("stride", "parts", "groups"), [(1, 1, 1), (2, 2, 2)])
def test_a_deformable_convolution_reads_between_pixels(
    stride: int, parts: int, groups: int
) -> None:
    model, feeds = deformed({"strides": [stride, stride]}, parts, groups)
    assert_same(model, feeds, atol=1e-5)


def test_offsets_that_are_no_numbers_read_nothing_outside() -> None:
    model, feeds = deformed({"strides": [1, 1]}, 1, 1)
    (right,) = compute(model, feeds)
    feeds["offset"][0, :, 0, 0] = np.nan
    feeds["offset"][0, :, 0, 1] = 3e38
    feeds["offset"][0, :, 0, 2] = -np.inf
    (made,) = compute(model, feeds)
    np.testing.assert_array_equal(made[1], right[1])
    np.testing.assert_array_equal(made[0, :, 1:], right[0, :, 1:])
