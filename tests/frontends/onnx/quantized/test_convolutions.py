"""ConvInteger and QLinearConv, bit for bit those of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.contributed import Draw, assert_same, number, one_node, rewritten
from tests.frontends.onnx.running import assert_same as assert_computed
from tests.frontends.onnx.running import typed_model

KINDS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]
STANDARD: dict[str, Any] = {"domain": "", "version": 21}
EXACT = {"rtol": 0.0, "atol": 0.0}


@pytest.mark.parametrize(("left", "right"), KINDS)
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("by_channel", [False, True])
def test_codes_of_a_convolution(left: type, right: type, groups: int, by_channel: bool) -> None:
    d = Draw()
    x = [d.codes(left, 1, 16, 9, 9), number(0.02), d.codes(left)]
    signed = np.zeros(8 if by_channel else (), right)
    zero = signed if by_channel or left is np.int8 else d.codes(right)
    scale = d.scales(8) if by_channel else number(0.03)
    weights = [d.codes(right, 8, 16 // groups, 3, 3), scale, zero]
    result = [number(8.0), d.codes(left), d.codes(np.int16, 8).astype(np.int32)]
    constants = {f"c{i}": value for i, value in enumerate([*x[1:], *weights, *result])}
    given = {"group": groups, "pads": [1, 1, 0, 2], "strides": [2, 1]}
    node = helper.make_node("QLinearConv", ["x", *constants], ["y"], **given)
    assert_computed(typed_model([node], {"x": x[0]}, constants), {"x": x[0]})


def test_sums_too_large_for_float32_are_added_in_parts() -> None:
    d = Draw()
    x = [d.codes(np.uint8, 1, 700, 4, 4), number(0.02), d.codes(np.uint8)]
    weights = [d.codes(np.uint8, 4, 700, 3, 3), number(0.03), number(0, np.uint8)]
    operands = [*x, *weights, number(50.0), d.codes(np.uint8), d.codes(np.int32, 4) >> 8]
    model, feeds = one_node("QLinearConv", operands, constants=tuple(range(1, 9)), **STANDARD)
    assert_same(model, feeds, **EXACT)
    assert [n.op_type for n in rewritten(model).graph.node].count("Conv") > 1


def test_what_is_padded_is_the_zero_point() -> None:
    d = Draw()
    sides = [d.codes(np.uint8, 1, 80, 7, 7), d.codes(np.uint8, 4, 80, 3, 3)]
    zeros = [d.codes(np.uint8), d.codes(np.uint8)]
    known = one_node("ConvInteger", [*sides, *zeros], constants=(1, 3), pads=[1] * 4, **STANDARD)
    assert_same(*known, **EXACT)
    given = {"auto_pad": "SAME_UPPER", "strides": [2, 2]}
    assert_same(*one_node("ConvInteger", [*sides, *zeros], **given, **STANDARD), **EXACT)
    assert_same(*one_node("ConvInteger", sides, **STANDARD), **EXACT)


def test_our_kernels_sum_whole_numbers_exactly() -> None:
    """By Winograd's tiles the sums of these windows were off by up to 5."""
    d = Draw()
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=[1] * 4)
    constants = {
        "w": d.codes(np.uint8, 64, 64, 3, 3), "xz": d.codes(np.uint8), "wz": d.codes(np.uint8),
        "s": number(0.02), "v": d.codes(np.int8, 64, 64, 3, 3), "vs": d.scales(64),
        "vz": np.zeros(64, np.int8), "ys": number(25.0), "yz": d.codes(np.uint8),
        "b": d.codes(np.int16, 64).astype(np.int32),
    }  # fmt: skip
    codes = ["x", "s", "xz", "v", "vs", "vz", "ys", "yz", "b"]
    linear = helper.make_node("QLinearConv", codes, ["z"], pads=[1] * 4)
    feeds = {"x": d.codes(np.uint8, 1, 64, 14, 14)}
    assert_computed(typed_model([node, linear], feeds, constants), feeds)
