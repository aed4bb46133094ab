"""What ONNX's checker lets pass in functions and nested graphs, and readers understand differently.

A function's output that nothing in it makes would be read from the graph around its call, and a
constant of a nested graph that has the name of a value around it is that value to ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import onnx
from onnx import FunctionProto, NodeProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.inner_graphs import inner_graphs
from tvm_hetero.frontends.onnx.model.tensors import check_tensor, describe
from tvm_hetero.frontends.onnx.opsets import DEFAULT_DOMAINS
from tvm_hetero.util.untrusted_names import printable

_Functions = Mapping[tuple[str, str], FunctionProto]


def check_bodies(model: onnx.ModelProto) -> None:
    """Refuse functions and nested graphs of which two readers make two things.

    Raises
    ------
    ModelError
        Two functions of one name; a function that does not make its output; a call with more
        operands or outputs than its function has; a nested constant with an outer value's name.
    """
    functions: dict[tuple[str, str], FunctionProto] = {}
    for function in model.functions:
        if functions.setdefault((_domain(function.domain), function.name), function) != function:
            raise ModelError(
                f"The model has two functions {_name(function)}, which differ in their overload. "
                "Export it with other names for them."
            )
        _check_outputs(function)
    for function in model.functions:
        _check_constants(function.node)
        _check_nodes(function.node, functions, [set(function.input)])
    _check_nodes(model.graph.node, functions, [set(_given(model.graph))])


def _check_outputs(function: FunctionProto) -> None:
    made = {*function.input, *(name for node in function.node for name in node.output)}
    for name in function.output:
        if name not in made:
            raise ModelError(
                f"Nothing in the function {_name(function)} makes its output "
                f"'{printable(name)}'. The file is damaged: export the model again."
            )


def _check_nodes(
    nodes: Sequence[NodeProto], functions: _Functions, given: Sequence[AbstractSet[str]]
) -> None:
    """Check calls and nested graphs of a body; it is given the names of the bodies around it."""
    outer = [*given, {name for node in nodes for name in node.output}]
    for index, node in enumerate(nodes):
        called = functions.get((_domain(node.domain), node.op_type)) if functions else None
        if called is not None:
            _check_call(describe(node, index), node, called)
        for graph in inner_graphs(node):
            _check_constants(graph.node)
            for tensor in graph.initializer:
                check_tensor(f"constant '{printable(tensor.name)}'", tensor)
                if any(tensor.name in names for names in outer):
                    raise ModelError(
                        f"{describe(node, index)} has a constant '{printable(tensor.name)}' in a "
                        "graph of its own, and a value around it has that name too. Each value "
                        "needs its own name: export the model again."
                    )
            _check_nodes(graph.node, functions, [*outer, set(_given(graph))])


def _check_constants(nodes: Sequence[NodeProto]) -> None:
    """Check what :func:`check_data` does not reach: constants within a body."""
    for index, node in enumerate(nodes):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                check_tensor(f"a constant of {describe(node, index)}", attribute.t)


def _check_call(where: str, node: NodeProto, function: FunctionProto) -> None:
    for what, has, takes in (
        ("operands", len(node.input), len(function.input)),
        ("outputs", len(node.output), len(function.output)),
    ):
        if has > takes:
            raise ModelError(
                f"{where} has {has} {what}, and the function {_name(function)} of the model has "
                f"{takes}. The file is damaged: export the model again."
            )
    if getattr(node, "overload", "") != getattr(function, "overload", ""):
        raise ModelError(
            f"{where} calls the overload '{printable(node.overload)}' of the function "
            f"{_name(function)}, of which the model has '{printable(function.overload)}'."
        )


def _given(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)


def _domain(domain: str) -> str:
    return "" if domain in DEFAULT_DOMAINS else domain


def _name(function: FunctionProto) -> str:
    return f"'{printable(function.domain)}::{printable(function.name)}'"
