"""The bodies of functions: the model's own, and those that onnx gives operators of its own.

onnx defines many operators by others (``Attention``, ``RotaryEmbedding``, ``Celu``, losses).  Some
of these bodies depend on the types of the operands, and are made for each call.
"""

from __future__ import annotations

import onnx
from onnx import FunctionProto, NodeProto

from tvm_hetero.frontends.onnx.expansion.known_values import KnownValues
from tvm_hetero.frontends.onnx.expansion.splicing import Body
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph


def function_body(node: NodeProto, graph: OnnxGraph, values: KnownValues) -> Body | None:
    """Return the body of the function that a node calls.

    Parameters
    ----------
    node : NodeProto
        The call.
    graph, values
        Of which functions and operands are.

    Returns
    -------
    Body or None
        None where neither the model nor onnx has such a function in terms of the model's opset.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    local = graph.functions.get((domain, node.op_type))
    if local is not None:
        return Body.of_function(local, node)
    version = graph.opset if not domain else graph.opset_of(domain)
    if domain not in ("", "ai.onnx.preview") or not onnx.defs.has(node.op_type, version, domain):
        return None
    schema = onnx.defs.get_schema(node.op_type, version, domain)
    function = _of_schema(schema, node, version, values)
    return None if function is None else Body.of_function(_with_defaults(function, schema), node)


def _of_schema(
    schema: onnx.defs.OpSchema, node: NodeProto, opset: int, values: KnownValues
) -> FunctionProto | None:
    """Return onnx's function for an operator, in the newest form that `opset` can hold."""
    fits = [version for version in schema.function_opset_versions if version <= opset]
    if fits:
        return _parsed(schema.get_function_with_opset_version(max(fits)))
    fits = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    if not fits:
        return None
    types = [values.type_of(name) if name else onnx.TypeProto() for name in node.input]
    if any(found is None for found in types):
        return None
    made = schema.get_context_dependent_function_with_opset_version(
        max(fits), node.SerializeToString(), [t.SerializeToString() for t in types if t is not None]
    )
    return _parsed(made)


def _parsed(text: bytes) -> FunctionProto | None:
    function = FunctionProto()
    function.ParseFromString(text)
    return function if function.node else None


def _with_defaults(function: FunctionProto, schema: onnx.defs.OpSchema) -> FunctionProto:
    """Return a function that has the operator's default attributes for its own."""
    given = {a.name for a in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name and name not in given:
            function.attribute_proto.append(attribute.default_value)
    return function
