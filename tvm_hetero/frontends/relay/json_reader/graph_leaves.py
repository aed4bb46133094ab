"""Nodes of a saved graph that refer to no other: numbers, texts, names, devices and arrays."""

from __future__ import annotations

from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.arrays import array_from_base64
from tvm_hetero.frontends.relay.core.limits import RelayLimits
from tvm_hetero.frontends.relay.core.program import (
    Constant,
    FunctionType,
    GlobalName,
    Operator,
    RelayDevice,
    Unsupported,
)
from tvm_hetero.frontends.relay.json_reader.graph_file import GraphNode, RelayGraph
from tvm_hetero.util.untrusted_names import printable

INTEGERS = frozenset({"IntImm", "UIntImm", "runtime.BoxInt", "runtime.BoxBool", "int", "bool"})
_FLOATS = frozenset({"FloatImm", "runtime.BoxFloat", "float"})
# What a call may carry that says nothing about what it computes.
_NOTES = frozenset({"IncompleteType", "SourceMap", "Span", "SequentialSpan", "SourceName"})
_CONTROL = {
    "relay.If": "if",
    "relay.Match": "match",
    "relay.RefCreate": "ref",
    "relay.RefRead": "ref_read",
    "relay.RefWrite": "ref_write",
    "relay.Constructor": "a data type's constructor",
    "Constructor": "a data type's constructor",
}


class Leaves:
    """Makes the objects of such nodes; an array once, however many constants say it is theirs."""

    def __init__(self, graph: RelayGraph, name: str, limits: RelayLimits) -> None:
        self.graph, self.name, self.limits = graph, name, limits
        self.arrays: dict[int, Constant] = {}

    def leaf(self, node: GraphNode) -> Any:
        """What refers to nothing: numbers, texts, names."""
        if node.index == 0 or node.type in _NOTES or not node.type:
            return None
        if node.type in INTEGERS:
            found = self._number(node, int)
            return bool(found) if node.fields.get("dtype") in ("bool", "uint1") else found
        if node.type in _FLOATS:
            return self._number(node, float)
        if node.type == "Op":
            return Operator(printable(node.text or self.hint(node)))
        if node.type == "GlobalVar":
            return GlobalName(self.hint(node))
        if node.type == "relay.Constant":
            return self._constant(node)
        if node.type in ("VirtualDevice", "SEScope"):
            return self._device(node)
        if node.type == "FuncType":
            return FunctionType()
        if self.graph.is_text(node.index):
            return self.graph.text(node)
        return Unsupported(_CONTROL.get(node.type, node.type), f"node {node.index}")

    def hint(self, node: GraphNode) -> str:
        """The name that a node bears."""
        return self.graph.plain_text(node.fields.get("name_hint", node.fields.get("name", "")))

    def _number(self, node: GraphNode, kind: type) -> Any:
        text = node.text
        for name in ("value", "v_int64", "v_float64"):
            text = node.fields.get(name, text)
        return number(text or "", kind, node)

    def _constant(self, node: GraphNode) -> Constant:
        text = node.fields.get("data", "")
        index = number(text, int, node)
        if not 0 <= index < len(self.graph.arrays):
            raise ModelError(
                f"{self.name}: {node} is array {index} of {len(self.graph.arrays)}: truncated?"
            )
        if index not in self.arrays:  # once, however many constants say that it is theirs
            where = f"{self.name}: array {index}"
            value = array_from_base64(self.graph.arrays[index], where, self.limits)
            self.arrays[index] = Constant(value)
        return self.arrays[index]

    def _device(self, node: GraphNode) -> RelayDevice | None:
        kind = node.fields.get("device_type_int", node.fields.get("device_type", "-1"))
        kind = number(kind, int, node)
        index = number(node.fields.get("virtual_device_id", "-1"), int, node)
        return RelayDevice(kind, index) if kind > 0 else None


def number(text: str, kind: type, node: GraphNode) -> Any:
    """The number that a text is.

    Raises
    ------
    ModelError
        It is none.
    """
    try:
        if len(text) > 64:
            raise ValueError
        return kind(text)
    except ValueError:
        raise ModelError(
            f"{node}: expected a number, got '{printable(text, 40)}'; the file is damaged"
        ) from None
