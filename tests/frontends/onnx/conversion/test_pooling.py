"""Places of maxima, norms of windows, windows of channels, largest corners of regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import Array, assert_same, compute, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

X = np.random.default_rng(0).standard_normal((2, 4, 5, 6)).astype(np.float32)
FORMS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [1, 2], "ceil_mode": 1, "dilations": [1, 2]},
    {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
]


def test_maxima_come_with_their_places() -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], [f"y{n}", f"i{n}"], **form)
        for n, form in enumerate([*FORMS, {"kernel_shape": [2, 2], "storage_order": 1}])
    ]
    nodes.append(helper.make_node("MaxPool", ["t"], ["ty", "ti"], kernel_shape=[3], strides=[2]))
    feeds: dict[str, Array] = {"x": X, "t": np.ones((1, 2, 7), np.float32)}
    assert_same(typed_model(nodes, feeds, opset=22), feeds)


def test_norms_of_windows_count_nothing_outside() -> None:
    nodes = [
        helper.make_node("LpPool", ["x"], [f"y{n}"], p=1 + n % 3, **form)
        for n, form in enumerate(FORMS)
    ]
    assert_same(typed_model(nodes, {"x": X}, opset=22), {"x": X}, rtol=1e-4)


@pytest.mark.parametrize("size", [2, 4])
def test_an_even_window_of_channels_has_one_more_behind(size: int) -> None:
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5, beta=0.6, bias=2.0)
    behind = size - 1 - (size - 1) // 2
    squares = np.pad(X**2, [(0, 0), ((size - 1) // 2, behind), (0, 0), (0, 0)])
    total = sum(squares[:, k : k + 4] for k in range(size))
    wanted = X / (2.0 + 0.5 / size * total) ** 0.6
    assert_same(typed_model([node], {"x": X}), {"x": X}, [wanted.astype(np.float32)], rtol=1e-4)


@pytest.mark.parametrize("ratio", [0, 2])
def test_the_largest_corner_of_all_samples_is_taken(ratio: int) -> None:
    rois = np.array([[0, 0, 3, 3], [1, 0.5, 5, 4.2], [-1, -1, 10, 10], [2, 2, 2.2, 2.1]])
    feeds: dict[str, Array] = {"x": X, "r": rois.astype(np.float32)}
    nodes = [
        helper.make_node(
            "RoiAlign", ["x", "r", "i"], [mode], mode="max", output_height=3, output_width=2,
            sampling_ratio=ratio, spatial_scale=0.7, coordinate_transformation_mode=mode,
        )
        for mode in ("half_pixel", "output_half_pixel")
    ]  # fmt: skip
    assert_same(typed_model(nodes, feeds, {"i": np.array([0, 1, 1, 0])}), feeds, rtol=1e-4)


@pytest.mark.parametrize("size", [0, -2, -3])
def test_windows_of_no_channels_are_refused(size: int) -> None:
    node = helper.make_node("LRN", ["x"], ["y"], size=size)
    with pytest.raises(ModelError, match=rf"sums over windows of {size} channels; expected 1"):
        from_onnx(typed_model([node], {"x": X}))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_a_region_that_ends_before_it_begins_has_no_samples(mode: str) -> None:
    """A sum of no rounds was what the memory held, 1e29 and other numbers."""
    rng = np.random.default_rng(3)
    regions = np.array([[6, 1, 2, 5], [1, 6, 5, 2], [1, 1, 5, 6], [3, 2, 3, 4]], np.float32)
    feeds = {"x": rng.standard_normal((1, 2, 7, 8)).astype(np.float32), "r": regions}
    node = helper.make_node(
        "RoiAlign", ["x", "r", "i"], ["y"], mode=mode, output_height=2, output_width=3
    )
    model = typed_model([node], feeds, {"i": np.zeros(4, np.int64)})
    found = compute(model, feeds)[0]
    assert not found[[0, 1, 3]].any()
    # ONNX Runtime refuses all of them where one ends before it begins.
    one = feeds | {"r": regions[2:3]}
    expected = run(typed_model([node], one, {"i": np.zeros(1, np.int64)}), one)[0]
    np.testing.assert_allclose(found[2:3], expected, rtol=1e-4, atol=1e-6)
