"""From the nodes of a saved graph to a `Program`.

Each node becomes one expression, however often it is referred to; a node that is met again while
it is being made goes in circles, which no program of Relay does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.names import printable
from tvm_hetero.frontends.relay.arrays import array_from_base64
from tvm_hetero.frontends.relay.fields import is_attributes, kind_of
from tvm_hetero.frontends.relay.graph_file import Graph, Node
from tvm_hetero.frontends.relay.limits import DEFAULT_LIMITS, Limits
from tvm_hetero.frontends.relay.program import (
    Call,
    Constant,
    Device,
    Function,
    FunctionType,
    GlobalName,
    Item,
    Let,
    Operator,
    Program,
    TensorType,
    Tuple,
    TupleType,
    Unsupported,
    Var,
)
from tvm_hetero.frontends.relay.walk import Walk, run

_INTEGERS = frozenset({"IntImm", "UIntImm", "runtime.BoxInt", "runtime.BoxBool", "int", "bool"})
_FLOATS = frozenset({"FloatImm", "runtime.BoxFloat", "float"})
# What a call may carry that says nothing about what it computes.
_NOTES = frozenset({"IncompleteType", "SourceMap", "Span", "SequentialSpan", "SourceName"})
MOST_ELEMENTS = 2**40
_MOST_FIELDS = 50
_CONTROL = {
    "relay.If": "if",
    "relay.Match": "match",
    "relay.RefCreate": "ref",
    "relay.RefRead": "ref_read",
    "relay.RefWrite": "ref_write",
    "relay.Constructor": "a data type's constructor",
    "Constructor": "a data type's constructor",
}


def program_of(graph: Graph, name: str, limits: Limits = DEFAULT_LIMITS) -> Program:
    """Return the program of a saved graph.

    Raises
    ------
    ModelError
        The graph goes in circles or is damaged, or what was saved is no program.
    """
    return _Reader(graph, name, limits).program()


def constants_of(graph: Graph, name: str, limits: Limits = DEFAULT_LIMITS) -> dict[str, list[Any]]:
    """Return what the metadata of a text holds: lists of objects by their type."""
    reader, found = _Reader(graph, name, limits), {}
    root = graph.node(graph.root)
    if root.type != "Map" or len(root.keys) != len(root.data):
        raise ModelError(f"{name}: the metadata is no map; the file is damaged")
    for key, index in zip(root.keys, root.data, strict=True):
        listed = run(reader.value(graph.node(index)))
        if not isinstance(listed, tuple):
            raise ModelError(f"{name}: '{printable(key)}' of the metadata is no list; damaged")
        found[key] = list(listed)
    return found


class _Reader:
    """Makes each node's object once; see the module."""

    def __init__(self, graph: Graph, name: str, limits: Limits) -> None:
        self.graph, self.name, self.limits = graph, name, limits
        self.made: dict[int, Any] = {}
        self.sizes: dict[int, int] = {}
        self.arrays: dict[int, Constant] = {}
        self.open: set[int] = set()
        self.listed = 0
        self.makers: dict[str, Callable[[Node], Walk]] = {
            "relay.Var": self._var,
            "relay.Call": self._call,
            "relay.Tuple": self._tuple,
            "relay.TupleGetItem": self._item,
            "relay.Let": self._let,
            "relay.Function": self._function,
            "relay.TensorType": self._tensor_type,
            "TupleType": self._tuple_type,
            "Array": self._array,
            "Map": self._map,
        }

    def program(self) -> Program:
        """The functions of the module that was saved, or the function or expression as main."""
        root = self.graph.node(self.graph.root)
        if root.type == "IRModule":
            functions = self._functions(root)
        else:
            functions = {"main": _as_function(run(self.value(root)), root)}
        if "main" not in functions:
            raise ModelError(f"{self.name}: the module has no function 'main'")
        return Program(functions, self.graph.version)

    def _functions(self, root: Node) -> dict[str, Function]:
        found = {}
        table = self.graph.target(root, "functions")
        if table.type != "Map" or len(table.data) % 2 or table.keys:
            raise ModelError(f"{self.name}: the module's functions are damaged; save it again")
        for key, value in zip(table.data[::2], table.data[1::2], strict=True):
            name = self._hint(self.graph.node(key))
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

    # ------------------------------------------------------------------ any node

    def value(self, node: Node) -> Any:
        """A node's object : an expression, a type, a list, a number, a text or None; or the walk
        that makes it (`run` takes either).
        """
        if node.index in self.made:
            return self.made[node.index]
        if node.index in self.open:
            raise ModelError(
                f"{self.name}: {node} contains itself: no Relay program goes in circles; the "
                "file is damaged"
            )
        maker = self.makers.get(node.type)
        if maker is not None:
            return self._making(node, maker(node))
        made = self.made[node.index] = self._leaf(node)
        return made

    def _making(self, node: Node, walk: Walk) -> Walk:
        self.open.add(node.index)
        made = self.made[node.index] = yield from walk
        self.open.discard(node.index)
        return made

    def _leaf(self, node: Node) -> Any:
        """What refers to nothing: numbers, texts, names."""
        if node.index == 0 or node.type in _NOTES or not node.type:
            return None
        if node.type in _INTEGERS:
            number = self._number(node, int)
            return bool(number) if node.fields.get("dtype") in ("bool", "uint1") else number
        if node.type in _FLOATS:
            return self._number(node, float)
        if node.type == "Op":
            return Operator(printable(node.text or self._hint(node)))
        if node.type == "GlobalVar":
            return GlobalName(self._hint(node))
        if node.type == "relay.Constant":
            return self._constant(node)
        if node.type in ("VirtualDevice", "SEScope"):
            return self._device(node)
        if node.type == "FuncType":
            return FunctionType()
        if self.graph.is_text(node.index):
            return self.graph.text(node)
        return Unsupported(_CONTROL.get(node.type, node.type), f"node {node.index}")

    def _number(self, node: Node, kind: type) -> Any:
        text = node.text
        for name in ("value", "v_int64", "v_float64"):
            text = node.fields.get(name, text)
        return _number(text or "", kind, node)

    def _hint(self, node: Node) -> str:
        return self.graph.plain_text(node.fields.get("name_hint", node.fields.get("name", "")))

    def _field(self, node: Node, name: str) -> Any:
        return self.value(self.graph.target(node, name))

    # ------------------------------------------------------------------ expressions

    def _var(self, node: Node) -> Walk:
        identity = self.graph.target(node, "vid")
        kind = yield self._field(node, "_checked_type_")
        noted = yield self._field(node, "type_annotation")
        if isinstance(kind, TensorType) and isinstance(noted, TensorType) and not noted.holds(kind):
            name = printable(self._hint(identity))
            raise ModelError(
                f"{self.name}: {node}: the file says that variable '{name}' is {noted} and that it "
                f"is {kind}: the file is damaged"
            )
        device = yield self._field(node, "virtual_device_")
        return Var(self._hint(identity), kind or noted, device)

    def _constant(self, node: Node) -> Constant:
        text = node.fields.get("data", "")
        index = _number(text, int, node)
        if not 0 <= index < len(self.graph.arrays):
            raise ModelError(
                f"{self.name}: {node} is array {index} of {len(self.graph.arrays)}: truncated?"
            )
        if index not in self.arrays:  # once, however many constants say that it is theirs
            where = f"{self.name}: array {index}"
            value = array_from_base64(self.graph.arrays[index], where, self.limits)
            self.arrays[index] = Constant(value)
        return self.arrays[index]

    def _call(self, node: Node) -> Walk:
        callee = yield self._field(node, "op")
        args = yield self._list(node, "args")
        kind = yield self._field(node, "_checked_type_")
        attributes = yield self._attributes(self.graph.target(node, "attrs"))
        name = callee.name if isinstance(callee, Operator) else "a function"
        return Call(callee, args, attributes, kind, f"node {node.index} ({name})")

    def _tuple(self, node: Node) -> Walk:
        return Tuple((yield self._list(node, "fields")))

    def _item(self, node: Node) -> Walk:
        value = yield self._field(node, "tuple_value")
        value = value if value is not None else (yield self._field(node, "tuple"))
        return Item(value, _number(node.fields.get("index", ""), int, node), f"node {node.index}")

    def _let(self, node: Node) -> Walk:
        var = yield self._field(node, "var")
        if not isinstance(var, Var):
            raise ModelError(f"{self.name}: {node} binds no variable; the file is damaged")
        value = yield self._field(node, "value")
        body = yield self._field(node, "body")
        return Let(var, value, body)

    def _function(self, node: Node) -> Walk:
        params = yield self._list(node, "params")
        if not all(isinstance(param, Var) for param in params):
            raise ModelError(f"{self.name}: {node}: a parameter is no variable; damaged")
        body = yield self._field(node, "body")
        result = yield self._field(node, "ret_type")
        attributes = yield self._attributes(self.graph.target(node, "attrs"))
        return Function(params, body, result, attributes, f"node {node.index}")

    def _list(self, node: Node, name: str) -> Walk:
        target = self.graph.target(node, name)
        if target.type not in ("Array", ""):
            raise ModelError(f"{self.name}: {node}: its {name} are no list; the file is damaged")
        found = list((yield self.value(target)) or ())
        self.listed += len(found)  # thousands of calls may each name the same long list
        if self.listed > 2 * self.limits.nodes:
            raise ModelError(
                f"{self.name}: {node}: its {name} are {len(found)} more of over "
                f"{2 * self.limits.nodes} arguments and fields; damaged"
            )
        return found

    # ------------------------------------------------------------------ types and attributes

    def _tensor_type(self, node: Node) -> Walk:
        shape = yield self._list(node, "shape")
        dims = [None if isinstance(d, Unsupported) else d for d in shape]
        return tensor_type(dims, node.fields.get("dtype", ""), f"{self.name}: {node}", self.limits)

    def _tuple_type(self, node: Node) -> Walk:
        fields = tuple((yield self._list(node, "fields")))
        self._grown(node, (self.graph.target(node, "fields").index,))
        return TupleType(fields)

    def _device(self, node: Node) -> Device | None:
        kind = node.fields.get("device_type_int", node.fields.get("device_type", "-1"))
        kind = _number(kind, int, node)
        index = _number(node.fields.get("virtual_device_id", "-1"), int, node)
        return Device(kind, index) if kind > 0 else None

    def _grown(self, node: Node, within: Iterable[int]) -> None:
        """Bound a value that is lists of lists: sixty of two, each the next twice, are 2^60."""
        size = 1 + sum(self.sizes.get(index, 1) for index in within)
        if size > self.limits.nodes:
            raise ModelError(
                f"{self.name}: {node} is a list within lists of {size} values; damaged"
            )
        self.sizes[node.index] = size

    def _array(self, node: Node) -> Walk:
        found: list[Any] = []
        for index in node.data:
            if index in self.made:
                found.append(self.made[index])
            else:
                found.append((yield self.value(self.graph.node(index, node))))
        self._grown(node, node.data)
        return tuple(found)

    def _map(self, node: Node) -> Walk:
        keys: list[Any] = list(node.keys)
        data = node.data if keys else node.data[1::2]
        for index in () if keys else node.data[::2]:
            key = yield self.value(self.graph.node(index, node))
            if not isinstance(key, str | int | float):
                raise ModelError(f"{self.name}: {node}: a key is neither text nor number; damaged")
            keys.append(key)
        if len(keys) != len(data):
            raise ModelError(f"{self.name}: {node} has {len(keys)} keys for {len(data)} values")
        found = {}
        for key, index in zip(keys, data, strict=True):
            found[str(key)] = yield self.value(self.graph.node(index, node))
        self._grown(node, data)
        return found

    def _attributes(self, node: Node) -> Walk:
        """The fields of an operator's attributes, each as what it is."""
        if node.index == 0 or not node.type:
            return {}
        if not is_attributes(node.type):
            return {"attributes": Unsupported(node.type, str(node))}
        if len(node.fields) > _MOST_FIELDS:
            raise ModelError(
                f"{self.name}: {node} has {len(node.fields)} fields; no operator has more than "
                f"{_MOST_FIELDS}"
            )
        if "__dict__" in node.fields:
            return (yield self._field(node, "__dict__")) or {}
        found = {}
        for name, text in node.fields.items():
            found[name] = yield self._attribute(node, name, text)
        return found

    def _attribute(self, node: Node, name: str, text: str) -> Any:
        kind = kind_of(node.type, name)
        if kind == "n":  # an object where there is a number under it
            known = text.isdecimal() and len(text) < 10 and int(text) < len(self.graph.raw)
            kind = "o" if known and self.graph.node(int(text)).type in _INTEGERS else "i"
        if kind in "ib":
            number = None if text == "null" else _number(text, int, node)
            return bool(number) if kind == "b" else number
        if kind == "f":
            return _number(text, float, node)
        if kind == "s":
            return self.graph.plain_text(text)
        return text if kind in "d?" else self._field(node, name)


def tensor_type(
    dims: list[Any], dtype: str, where: str, limits: Limits = DEFAULT_LIMITS
) -> TensorType:
    """A checked tensor type: dimensions not negative, a product below 2^63.

    Raises
    ------
    ModelError
        Otherwise.
    """
    if len(dims) > limits.rank:
        raise ModelError(f"{where}: {len(dims)} dimensions; at most {limits.rank} are taken")
    for dim in dims:
        if dim is not None and (not isinstance(dim, int) or dim < 0):
            raise ModelError(f"{where}: a dimension is '{printable(dim, 40)}', expected a number")
    if math.prod(d or 1 for d in dims) > MOST_ELEMENTS:
        raise ModelError(f"{where}: {dims} has too many elements")
    return TensorType(tuple(dims), printable(dtype, 40))


def _number(text: str, kind: type, node: Node) -> Any:
    try:
        if len(text) > 64:
            raise ValueError
        return kind(text)
    except ValueError:
        raise ModelError(
            f"{node}: expected a number, got '{printable(text, 40)}'; the file is damaged"
        ) from None


def _as_function(value: Any, root: Node) -> Function:
    """What was saved, if it is an expression, as a function of the variables that it reads."""
    if isinstance(value, Function):
        return value
    if not isinstance(value, Call | Tuple | Item | Let | Constant):
        raise ModelError(
            f"what was saved is {root}, no Relay program; save the module: tvm.ir.save_json(mod)"
        )
    from tvm_hetero.frontends.relay.free import free_variables

    return Function(free_variables(value), value, None, {}, str(root))
