"""Bits shifted by the width and beyond, or by less than nothing."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import Array, assert_same, evaluate, typed_model

TYPES = ["int8", "int32", "int64", "uint8", "uint16", "uint64"]


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_no_bits_are_left_beyond_the_width(direction: str) -> None:
    feeds: dict[str, Array] = {}
    nodes = []
    for kind in TYPES:
        signed = kind.startswith("i")
        numbers = [-100, 3, -7, 100, 1, -1] if signed else [200, 3, 7, 255, 1, 0]
        steps = [0, 1, -1 if signed else 9, 100, np.iinfo(kind).bits, 7]
        feeds[f"x_{kind}"], feeds[f"s_{kind}"] = np.array(numbers, kind), np.array(steps, kind)
        operands = [f"x_{kind}", f"s_{kind}"]
        nodes.append(helper.make_node("BitShift", operands, [kind], direction=direction))
    model = typed_model(nodes, feeds, opset=28)
    model.ir_version = 14
    assert_same(model, feeds, evaluate(model, feeds))
