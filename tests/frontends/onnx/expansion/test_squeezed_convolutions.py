"""Convolutions of images of one row or column are those of lines, where the result is squeezed."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import assert_same, typed_model
from tvm_hetero.frontends.onnx import from_onnx

RNG = np.random.default_rng(0)


def data(*shape: int):
    return RNG.standard_normal(shape).astype(np.float32)


def line(axis: int, **given):
    """A convolution with bias behind the squeeze, its input and what NumPy says of it."""
    other = 5 - axis
    shape, window = [2, 8, 1, 1], [16, 8, 1, 1]
    shape[other], window[other] = 20, 5
    w, bias = data(*window), data(1, 16, 1)
    attributes = {"strides": [2, 2], "dilations": [1, 1], **given}
    if "pads" not in given:
        attributes["pads"] = [2 if d == other else 0 for d in (2, 3)] * 2
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["image"], **attributes),
        helper.make_node("Squeeze", ["image", "axis"], ["squeezed"]),
        helper.make_node("Add", ["squeezed", "bias"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    constants = {"w": w, "bias": bias, "axis": np.array([axis])}
    x = data(*shape)
    padded = np.pad(np.squeeze(x, axis), [(0, 0), (0, 0), (2, 2)])
    taps = np.squeeze(w, axis)
    at = range(0, padded.shape[2] - 4, 2)
    sums = np.stack([np.einsum("nck,ock->no", padded[..., p : p + 5], taps) for p in at], -1)
    return nodes, constants, x, np.maximum(sums + bias, 0).astype(np.float32)


def operators(nodes, constants, x) -> str:
    return str(from_onnx(typed_model(nodes, {"x": x}, constants))["main"])


@pytest.mark.parametrize("axis", [2, 3], ids=["one row", "one column"])
def test_the_convolution_is_one_of_a_line(axis):
    nodes, constants, x, wanted = line(axis)
    assert_same(typed_model(nodes, {"x": x}, constants), {"x": x}, [wanted])
    assert "conv1d" in operators(nodes, constants, x)


def test_an_image_that_something_else_reads_stays_one():
    nodes, constants, x, _ = line(3)
    nodes.append(helper.make_node("Neg", ["image"], ["z"]))
    assert "conv1d" not in operators(nodes, constants, x)


def test_padding_along_the_axis_stays():
    nodes, constants, x, _ = line(2, pads=[0, 2, 1, 2], strides=[2, 2])
    assert "conv1d" not in operators(nodes, constants, x)


def test_channels_alone_stay_images():
    nodes, constants, x, _ = line(2)
    constants |= {"w": data(8, 1, 1, 5), "bias": data(1, 8, 1)}
    nodes[0].attribute.append(helper.make_attribute("group", 8))
    assert "conv1d" not in operators(nodes, constants, x)
