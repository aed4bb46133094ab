"""Between which integers an input lies that is an index into constant rows.

Who makes inputs up (measuring the built plan, ``run`` and ``bench`` without a file) keeps to them:
token types of a BERT are 0 or 1, and 7 of them would end the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from onnx import NodeProto, helper

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph

# Operators that hand the numbers of their first operand on, and of all operands.
_HAND_ON = {
    "Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile",
    "Transpose", "Unsqueeze",
}  # fmt: skip
_HAND_ALL_ON = {"Concat"}


def index_ranges(graph: OnnxGraph) -> dict[str, tuple[int, int]]:
    """Return the least and the largest index for each input that selects among constant rows.

    Of several tables the shortest counts. What is computed from an input before it is used as an
    index is not followed.
    """
    inputs = {each.name for each in graph.inputs}
    came_from: dict[str, set[str]] = {name: {name} for name in inputs}
    lengths: dict[str, list[int]] = defaultdict(list)
    for node in graph.nodes:
        for name in _looked_up(graph, node, came_from):
            lengths[name].append(_rows(graph, node))
        for output in node.output:
            came_from[output] = _handed_on(node, came_from)
    return {name: (0, min(found) - 1) for name, found in lengths.items() if min(found) > 0}


def _handed_on(node: NodeProto, came_from: Mapping[str, set[str]]) -> set[str]:
    """Inputs whose numbers stand in what a node makes."""
    if node.op_type in _HAND_ON:
        return came_from.get(node.input[0], set())
    if node.op_type in _HAND_ALL_ON:
        return set().union(*(came_from.get(name, set()) for name in node.input))
    return set()


def _looked_up(graph: OnnxGraph, node: NodeProto, came_from: Mapping[str, set[str]]) -> list[str]:
    """Inputs of the model that a node uses as indices into a constant."""
    is_table = node.op_type in ("Gather", "GatherElements") and node.input[0] in graph.constants
    return sorted(came_from.get(node.input[1], set())) if is_table else []


def _rows(graph: OnnxGraph, node: NodeProto) -> int:
    axis = next((helper.get_attribute_value(a) for a in node.attribute if a.name == "axis"), 0)
    return graph.shape(node.input[0])[axis]
