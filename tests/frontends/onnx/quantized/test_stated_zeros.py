"""Zero points that are left out are 0, of the type of the codes; wider codes are numbers first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.contributed import Draw, number
from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import compute, typed_model
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.quantized.dequantized_convolutions import convolve_codes
from tvm_hetero.frontends.onnx.quantized.stated_zeros import state_zeros


@pytest.mark.parametrize("codes", [np.uint8, np.int8, np.int16, np.uint16])
def test_codes_without_zero_points_are_convolved_too(codes: Any) -> None:
    d = Draw()
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["numbers"]),
        helper.make_node("DequantizeLinear", ["w", "t"], ["weights"], axis=0),
        helper.make_node("Conv", ["numbers", "weights"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "u"], ["y"]),
    ]
    constants = {
        "s": number(0.25), "w": d.codes(np.int8, 8, 4, 3, 3), "u": number(2.0**10),
        "t": np.repeat(np.float32([0.5, 0.125]), 4),
    }  # fmt: skip
    feeds = {"x": d.codes(codes, 1, 4, 6, 6)}
    model = typed_model(nodes, feeds, constants, opset=21)
    graph = OnnxGraph(model)
    state_zeros(graph)
    convolve_codes(graph)
    of_bytes = np.dtype(codes).itemsize == 1
    assert [n.op_type for n in graph.nodes][-1:] == [
        "QLinearConv" if of_bytes else "QuantizeLinear"
    ]
    (want,), (got,) = run(model, feeds), compute(model, feeds)
    assert len(np.unique(want)) > 1
    np.testing.assert_array_equal(got, want)
