"""Remove nodes that do nothing at inference, and write ``Sum`` as ``Add``.

``Identity`` and ``Dropout`` hand their input on.  ``Sum`` of many operands imports
into TVM as broadcast, stack and reduce: three slow tasks where additions fuse.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.frontends.onnx.model.tensors import describe


def drop_aliases(graph: OnnxGraph) -> None:
    """Drop every ``Identity`` and ``Dropout``, in place.

    Where the result is an output of the graph, whoever makes the value takes over the
    output's name; if no one can (it is an input, a constant or itself an output), an
    ``Identity`` stays.

    Raises
    ------
    ModelError
        A ``Dropout`` in training mode, or one whose mask is used.
    """
    readers = graph.consumers()
    outputs = graph.output_names
    made = {name: node for node in graph.nodes for name in node.output}
    renamed: dict[str, str] = {}
    kept: list[NodeProto] = []
    for index, node in enumerate(graph.nodes):
        if node.op_type == "Dropout":
            _check_dropout(graph, node, index, set(readers) | outputs)
        if node.op_type not in ("Identity", "Dropout"):
            kept.append(node)
            continue
        source, target = renamed.get(node.input[0], node.input[0]), node.output[0]
        if target not in outputs:
            renamed[target] = source
        elif source in made and source not in outputs:
            _rename_output(made[source], source, target)
            graph.keep_marks(source, target)
            made[target] = made[source]
            renamed[source] = target
            # What was led to the old name must be led on to the new one.
            for key in [k for k, v in renamed.items() if v == source]:
                renamed[key] = target
        else:
            kept.append(helper.make_node("Identity", [source], [target], name=node.name))
    graph.nodes = kept
    graph.rename_uses(renamed)
    graph.sweep()


def _rename_output(node: NodeProto, old: str, new: str) -> None:
    for position, name in enumerate(node.output):
        if name == old:
            node.output[position] = new


def _check_dropout(graph: OnnxGraph, node: NodeProto, index: int, used: set[str]) -> None:
    """Refuse a dropout that changes something."""
    training = node.input[2] if len(node.input) > 2 else ""
    if training and (training not in graph.constants or np.any(graph.array(training))):
        raise ModelError(
            f"{describe(node, index)} is in training mode, or may be. "
            "Export the model for inference."
        )
    if any(name and name in used for name in node.output[1:]):
        raise ModelError(
            f"{describe(node, index)} hands its mask on, which only training needs. "
            "Export the model for inference."
        )


def sums_to_adds(graph: OnnxGraph) -> None:
    """Replace each ``Sum`` by a chain of ``Add`` from left to right, in place."""
    nodes: list[NodeProto] = []
    for node in graph.nodes:
        nodes.extend(_adds(graph, node) if node.op_type == "Sum" else [node])
    graph.nodes = nodes


def _adds(graph: OnnxGraph, node: NodeProto) -> list[NodeProto]:
    target, operands = node.output[0], list(node.input)
    if len(operands) == 1:
        return [helper.make_node("Identity", operands, [target], name=node.name)]
    partial = [graph.fresh(f"{target}_part") for _ in operands[2:]] + [target]
    lefts = [operands[0], *partial[:-1]]
    return [
        # Node names must be unique to ONNX Runtime, so only the last inherits one.
        helper.make_node("Add", [left, right], [result], name=node.name * (result == target))
        for left, right, result in zip(lefts, operands[1:], partial, strict=True)
    ]


def no_training(graph: OnnxGraph, *, rewritten: bool = False) -> None:
    """Refuse a ``BatchNormalization`` that computes its statistics while it runs.

    Parameters
    ----------
    graph : OnnxGraph
        Not changed.
    rewritten : bool
        Nodes that say so by ``training_mode`` will be rewritten: only the form before opset 14,
        which is told by the use of its outputs, is refused.

    Raises
    ------
    ModelError
        ``training_mode`` is set, or the running statistics are used as outputs.
    """
    used = set(graph.consumers()) | graph.output_names
    for index, node in enumerate(graph.nodes):
        if node.op_type != "BatchNormalization":
            continue
        training = attribute(node, "training_mode", 0)
        if training and rewritten:
            continue
        if training or any(o and o in used for o in node.output[1:]):
            raise ModelError(
                f"{describe(node, index)} is in training mode. Export the model for inference."
            )
