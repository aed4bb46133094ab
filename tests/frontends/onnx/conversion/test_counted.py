"""Axes that nodes name of values whose size the data decide."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import NodeProto, helper

from tests.frontends.onnx.running import typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.conversion.counted import CountedAxis, ValueType, read_counted
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph

TYPES = {"c": ValueType((3, 4), "float32"), "axes": ValueType((1,), "int64")}


def found(node: NodeProto, axes: int) -> CountedAxis:
    feeds = {"c": np.zeros((3, 4), np.float32)}
    model = typed_model([helper.make_node("Identity", ["c"], ["z"])], feeds)
    graph = OnnxGraph(model)
    graph.constants["axes"] = np.array([axes])
    return read_counted(node, graph, {"c": CountedAxis(0, "n")}, TYPES)


@pytest.mark.parametrize("axis", [3, -4])
def test_an_axis_that_is_not_there_is_refused_not_wrapped_around(axis: int) -> None:
    for node in (
        helper.make_node("Softmax", ["c"], ["y"], axis=axis),
        helper.make_node("Gather", ["c", "axes"], ["y"], axis=axis),
        helper.make_node("Slice", ["c", "axes", "axes", "axes"], ["y"]),
        helper.make_node("ReduceSum", ["c", "axes"], ["y"]),
        helper.make_node("Squeeze", ["c", "axes"], ["y"]),
        helper.make_node("Unsqueeze", ["c", "axes"], ["y"]),
    ):
        with pytest.raises(ModelError, match=rf"\({node.op_type}\) names axis {axis}, and there"):
            found(node, axis)
    assert found(helper.make_node("Unsqueeze", ["c", "axes"], ["y"]), -3) == CountedAxis(1, "n")
