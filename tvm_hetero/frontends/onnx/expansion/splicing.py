"""Put the nodes of a nested graph, or of a function, into the graph around it.

Values of the body get names that the graph does not use; its inputs and outputs get the names that
they have outside.  What a nested graph reads of the graph around it keeps its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, helper

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.util.untrusted_names import printable


@dataclass(frozen=True)
class Body:
    """Nodes with what they read from outside and what they give."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[NodeProto, ...]
    initializers: tuple[TensorProto, ...] = ()
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)

    @classmethod
    def of_graph(cls, graph: GraphProto) -> Body:
        """Return the body of a nested graph."""
        initializers = {t.name for t in graph.initializer}
        return cls(
            tuple(i.name for i in graph.input if i.name not in initializers),
            tuple(o.name for o in graph.output),
            tuple(graph.node),
            tuple(graph.initializer),
        )

    @classmethod
    def of_function(cls, function: FunctionProto, call: NodeProto) -> Body:
        """Return the body of a function as `call` calls it: with its attributes."""
        attributes = {a.name: a for a in function.attribute_proto}
        attributes.update({a.name: a for a in call.attribute})
        nodes = tuple(function.node)
        return cls(tuple(function.input), tuple(function.output), nodes, (), attributes)


def splice(
    body: Body, inputs: Sequence[str], outputs: Sequence[str], graph: OnnxGraph, base: str
) -> list[NodeProto]:
    """Return the nodes of a body with names of `graph`; its initializers become constants there.

    Parameters
    ----------
    body : Body
        What to put in.
    inputs, outputs : sequence of str
        Names outside, in the order of the body's; missing or '' where there is none.
    graph : OnnxGraph
        Gives fresh names, and takes the constants.
    base : str
        With what fresh names begin.
    """
    names = dict.fromkeys(body.inputs, "")
    names.update(zip(body.inputs, inputs, strict=False))
    for tensor in body.initializers:
        names[tensor.name] = graph.fresh(f"{base}/{tensor.name}")
        graph.made.charge_tensor(tensor, f"constant '{printable(tensor.name)}'")
        copy = TensorProto()
        copy.CopyFrom(tensor)
        copy.name = names[tensor.name]
        graph.constants[copy.name] = copy
    made = {name for node in body.nodes for name in node.output if name}
    aliases: list[NodeProto] = []
    for inner, outer in zip(body.outputs, outputs, strict=False):
        if outer and inner in made and inner not in names:
            names[inner] = outer
        elif outer:
            aliases.append(NodeProto(op_type="Identity", input=[inner], output=[outer]))
    for name in sorted(made - set(names)):
        names[name] = graph.fresh(f"{base}/{name}")
    renamed = [_renamed(node, names, body.attributes) for node in [*body.nodes, *aliases]]
    for node, alias in zip(renamed[len(body.nodes) :], aliases, strict=True):
        node.output[:] = alias.output
    for node in renamed:
        node.name = graph.fresh(f"{base}/{node.op_type}")
    return renamed


def _renamed(
    node: NodeProto, names: Mapping[str, str], attributes: Mapping[str, AttributeProto]
) -> NodeProto:
    """Return a copy of a node with other names of values, and attributes in place of references."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    del copy.attribute[:]
    for each in node.attribute:
        if each.ref_attr_name and each.ref_attr_name not in attributes:
            continue
        given = attributes[each.ref_attr_name] if each.ref_attr_name else each
        added = copy.attribute.add()
        added.CopyFrom(given)
        added.name = each.name
        if added.HasField("g"):
            _rename_graph(added.g, names, attributes)
    return copy


def _rename_graph(
    graph: GraphProto, names: Mapping[str, str], attributes: Mapping[str, AttributeProto]
) -> None:
    """Rename what a nested graph reads of the graphs around it, in place."""
    own = {value.name for value in graph.input} | {t.name for t in graph.initializer}
    own.update(name for node in graph.node for name in node.output)
    outer = {key: value for key, value in names.items() if key not in own}
    nodes = [_renamed(node, outer, attributes) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    # A nested graph may give what it did not make: an outer value as it is.
    for value in graph.output:
        if value.name in outer:
            source, value.name = outer[value.name], f"{value.name}__given"
            graph.node.append(helper.make_node("Identity", [source], [value.name]))
