"""From the nodes of a saved graph to a `RelayProgram`: expressions, their types, and functions.

What they consist of is read by those below:

    what any node is, lists and maps            `graph_values`
    numbers, texts, names, devices, arrays      `graph_leaves`
    attributes of operators                     `graph_attributes`
"""

from __future__ import annotations

from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits
from tvm_hetero.frontends.relay.core.program import (
    Constant,
    Function,
    Let,
    Operator,
    ProgramItem,
    RelayCall,
    RelayProgram,
    RelayTensorType,
    Tuple,
    TupleType,
    Unsupported,
    Var,
)
from tvm_hetero.frontends.relay.core.tensor_types import tensor_type
from tvm_hetero.frontends.relay.core.trampoline import Walk, run
from tvm_hetero.frontends.relay.json_reader.free_variables import free_variables
from tvm_hetero.frontends.relay.json_reader.graph_attributes import Attributes
from tvm_hetero.frontends.relay.json_reader.graph_file import GraphNode, RelayGraph
from tvm_hetero.frontends.relay.json_reader.graph_leaves import number
from tvm_hetero.util.untrusted_names import printable


def program_of(graph: RelayGraph, name: str, limits: RelayLimits = DEFAULT_LIMITS) -> RelayProgram:
    """Return the program of a saved graph.

    Raises
    ------
    ModelError
        The graph goes in circles or is damaged, or what was saved is no program.
    """
    return _GraphReader(graph, name, limits).program()


def constants_of(
    graph: RelayGraph, name: str, limits: RelayLimits = DEFAULT_LIMITS
) -> dict[str, list[Any]]:
    """Return what the metadata of a text holds: lists of objects by their type."""
    reader, found = _GraphReader(graph, name, limits), {}
    root = graph.node(graph.root)
    if root.type != "Map" or len(root.keys) != len(root.data):
        raise ModelError(f"{name}: the metadata is no map; the file is damaged")
    for key, index in zip(root.keys, root.data, strict=True):
        listed = run(reader.value(graph.node(index)))
        if not isinstance(listed, tuple):
            raise ModelError(f"{name}: '{printable(key)}' of the metadata is no list; damaged")
        found[key] = list(listed)
    return found


class _GraphReader(Attributes):
    """Makes expressions and types."""

    def __init__(self, graph: RelayGraph, name: str, limits: RelayLimits) -> None:
        super().__init__(graph, name, limits)
        self.makers |= {
            "relay.Var": self._var,
            "relay.Call": self._call,
            "relay.Tuple": self._tuple,
            "relay.TupleGetItem": self._item,
            "relay.Let": self._let,
            "relay.Function": self._function,
            "relay.TensorType": self._tensor_type,
            "TupleType": self._tuple_type,
        }

    def program(self) -> RelayProgram:
        """The functions of the module that was saved, or the function or expression as main."""
        root = self.graph.node(self.graph.root)
        if root.type == "IRModule":
            functions = self._functions(root)
        else:
            functions = {"main": _as_function(run(self.value(root)), root)}
        if "main" not in functions:
            raise ModelError(f"{self.name}: the module has no function 'main'")
        return RelayProgram(functions, self.graph.version)

    def _functions(self, root: GraphNode) -> dict[str, Function]:
        found = {}
        table = self.graph.target(root, "functions")
        if table.type != "Map" or len(table.data) % 2 or table.keys:
            raise ModelError(f"{self.name}: the module's functions are damaged; save it again")
        for key, value in zip(table.data[::2], table.data[1::2], strict=True):
            name = self.leaves.hint(self.graph.node(key))
            function = run(self.value(self.graph.node(value)))
            if isinstance(function, Unsupported):
                raise ModelError(
                    f"{self.name}: function '{printable(name)}' is a {printable(function.name)}, "
                    "lowered already; save the module before relay.build"
                )
            if not isinstance(function, Function):
                raise ModelError(f"{self.name}: '{printable(name)}' is no function; damaged")
            found[name] = function
        return found

    # ------------------------------------------------------------------ expressions

    def _var(self, node: GraphNode) -> Walk:
        identity = self.graph.target(node, "vid")
        kind = yield self.field(node, "_checked_type_")
        noted = yield self.field(node, "type_annotation")
        if (
            isinstance(kind, RelayTensorType)
            and isinstance(noted, RelayTensorType)
            and not noted.holds(kind)
        ):
            name = printable(self.leaves.hint(identity))
            raise ModelError(
                f"{self.name}: {node}: the file says that variable '{name}' is {noted} and that it "
                f"is {kind}: the file is damaged"
            )
        device = yield self.field(node, "virtual_device_")
        return Var(self.leaves.hint(identity), kind or noted, device)

    def _call(self, node: GraphNode) -> Walk:
        callee = yield self.field(node, "op")
        args = yield self.listed(node, "args")
        kind = yield self.field(node, "_checked_type_")
        attributes = yield self.attributes(self.graph.target(node, "attrs"))
        name = callee.name if isinstance(callee, Operator) else "a function"
        return RelayCall(callee, args, attributes, kind, f"node {node.index} ({name})")

    def _tuple(self, node: GraphNode) -> Walk:
        return Tuple((yield self.listed(node, "fields")))

    def _item(self, node: GraphNode) -> Walk:
        value = yield self.field(node, "tuple_value")
        value = value if value is not None else (yield self.field(node, "tuple"))
        return ProgramItem(
            value, number(node.fields.get("index", ""), int, node), f"node {node.index}"
        )

    def _let(self, node: GraphNode) -> Walk:
        var = yield self.field(node, "var")
        if not isinstance(var, Var):
            raise ModelError(f"{self.name}: {node} binds no variable; the file is damaged")
        value = yield self.field(node, "value")
        body = yield self.field(node, "body")
        return Let(var, value, body)

    def _function(self, node: GraphNode) -> Walk:
        params = yield self.listed(node, "params")
        if not all(isinstance(param, Var) for param in params):
            raise ModelError(f"{self.name}: {node}: a parameter is no variable; damaged")
        body = yield self.field(node, "body")
        result = yield self.field(node, "ret_type")
        attributes = yield self.attributes(self.graph.target(node, "attrs"))
        return Function(params, body, result, attributes, f"node {node.index}")

    # ------------------------------------------------------------------ types

    def _tensor_type(self, node: GraphNode) -> Walk:
        shape = yield self.listed(node, "shape")
        dims = [None if isinstance(d, Unsupported) else d for d in shape]
        return tensor_type(dims, node.fields.get("dtype", ""), f"{self.name}: {node}", self.limits)

    def _tuple_type(self, node: GraphNode) -> Walk:
        fields = tuple((yield self.listed(node, "fields")))
        self.grown(node, (self.graph.target(node, "fields").index,))
        return TupleType(fields)


def _as_function(value: Any, root: GraphNode) -> Function:
    """What was saved, if it is an expression, as a function of the variables that it reads."""
    if isinstance(value, Function):
        return value
    if not isinstance(value, RelayCall | Tuple | ProgramItem | Let | Constant):
        raise ModelError(
            f"what was saved is {root}, no Relay program; save the module: tvm.ir.save_json(mod)"
        )
    return Function(free_variables(value), value, None, {}, str(root))
