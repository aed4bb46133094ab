"""Outputs of a model that are no tensors, as the tensors that they are made of.

A sequence ``s`` of three tensors becomes the outputs ``s_0``, ``s_1``, ``s_2``; an optional becomes
the tensor in it.
"""

from __future__ import annotations

from onnx import ValueInfoProto, helper

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.expansion.known_values import KnownValues
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.util.untrusted_names import printable


def tensors_for_outputs(graph: OnnxGraph, values: KnownValues) -> None:
    """Replace outputs that are sequences or optionals, in place.

    Raises
    ------
    ModelError
        An output that holds nothing, or elements of unknown type.
    """
    found: list[ValueInfoProto] = []
    for output in graph.outputs:
        kind = output.type.WhichOneof("value")
        elements = values.sequences.get(output.name)
        if elements is None and kind in ("tensor_type", None):
            found.append(output)
        elif elements is None:
            found.append(_tensor(values, output.name, output.name))
        else:
            for place, element in enumerate(elements):
                name = graph.fresh(f"{output.name}_{place}")
                graph.nodes.append(helper.make_node("Identity", [element], [name]))
                found.append(_tensor(values, element, name))
    if not found:
        raise ModelError("All outputs of the model are empty sequences: it computes nothing.")
    graph.outputs = found


def _tensor(values: KnownValues, source: str, name: str) -> ValueInfoProto:
    """Return an output `name` of the type that the value `source` has."""
    type_ = values.type_of(source)
    if type_ is None or not type_.HasField("tensor_type"):
        raise ModelError(
            f"The output '{printable(name)}' is no tensor: it holds nothing, or what it holds is "
            "not known before the model runs. Leave it out."
        )
    return ValueInfoProto(name=name, type=type_)
