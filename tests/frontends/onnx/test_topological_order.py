"""Files whose nodes are in no order are put in order, as ONNX Runtime does."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.expansion.test_walk import if_on_shape
from tests.frontends.onnx.models import conv_relu, make
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import check_model
from tvm_hetero.frontends.onnx.topological_order import sort_nodes


def operators(model: onnx.ModelProto) -> list[str]:
    """Operators in order."""
    return [node.op_type for node in model.graph.node]


def test_nodes_are_put_behind_what_they_read() -> None:
    model = conv_relu()
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert operators(model) == ["Relu", "Conv"]
    assert operators(check_model(model)) == ["Conv", "Relu"]


def test_what_a_nested_graph_reads_counts_too() -> None:
    model = if_on_shape()
    nodes = list(model.graph.node)
    nodes[3].attribute[0].g.node[0].input[0] = "h"
    del model.graph.node[:]
    model.graph.node.extend([*nodes, helper.make_node("Exp", ["x"], ["h"])])
    sort_nodes(model)
    assert operators(model).index("Exp") < operators(model).index("If")


def test_order_stays_where_it_is_one() -> None:
    model = conv_relu()
    before = model.SerializeToString()
    sort_nodes(model)
    assert model.SerializeToString() == before


def test_a_circle_is_refused() -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    with pytest.raises(ModelError, match="topologically sorted"):
        check_model(make(nodes, {"x": [2]}, ["b"]))
