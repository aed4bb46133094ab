"""The object graph that ``tvm.ir.save_json`` of the old TVM wrote: nodes that name each other.

    {"root": 1, "nodes": [node, ...], "b64ndarrays": [text, ...], "attrs": {"tvm_version": ...}}

A node has a ``type_key``, and either ``repr_str`` (``repr_b64``, once ``global_key``), its whole
value as text, or ``attrs``, its fields, or ``data`` (and ``keys``), what a container holds. Node 0
stands for nothing. Old files call the type ``node_type`` and keep ``tvm_version`` at the top.

Nothing is followed here: nodes that form cycles are found by who walks over them
(`graph_values`). What is here makes sure that the file is small enough to be parsed, and that each
node is what it should be.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.errors import FormatError, ModelError
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits
from tvm_hetero.util.strict_json import check_pairs
from tvm_hetero.util.untrusted_names import printable

_STRINGS = frozenset({"runtime.String", "ffi.String", "String", "StringImm", "tir.StringImm"})
_ONLY_TEXT = frozenset({str})
_TEXT_IN_FIELD = frozenset({"StringImm", "tir.StringImm"})
# TVM 0.6 and older called some types otherwise.
_RENAMED = {
    "relay.Module": "IRModule",
    "relay.GlobalVar": "GlobalVar",
    "relay.Op": "Op",
    "relay.TupleType": "TupleType",
    "relay.FuncType": "FuncType",
    "relay.IncompleteType": "IncompleteType",
    "tir.Any": "Any",
    "relay.Any": "Any",
    "relay.IdNode": "relay.Id",
    "runtime.Map": "Map",
    "runtime.Array": "Array",
    "StrMap": "Map",
    "ffi.Map": "Map",
    "ffi.Array": "Array",
}


@dataclass(slots=True)  # not frozen: that makes each three times as expensive to make
class GraphNode:
    """One object of a graph; `fields` still are texts (see `fields.py`)."""

    index: int
    type: str
    text: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    data: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"node {self.index} ({printable(self.type or 'nothing', 40)})"


@dataclass
class RelayGraph:
    """A saved graph: its nodes as they were parsed, arrays still in base64, and the node that was
    saved. A node is looked at when someone asks for it, so that what no one refers to costs
    nothing.
    """

    name: str
    raw: list[Any]
    arrays: tuple[Any, ...]
    root: int
    version: str
    made: dict[int, GraphNode] = field(default_factory=dict)

    def node(self, index: int, asked: object = "the file") -> GraphNode:
        """Return a node by number; `asked` names who does."""
        found = self.made.get(index)
        if found is None:
            if not 0 <= index < len(self.raw):
                raise ModelError(
                    f"{asked} refers to node {index}, but there are {len(self.raw)}: the file is "
                    "damaged; save it again"
                )
            found = self.made[index] = _node(index, self.raw[index], self.name)
        return found

    def target(self, node: GraphNode, name: str) -> GraphNode:
        """Return the node that a field of `node` refers to; node 0 where there is no such."""
        text = node.fields.get(name, "0")
        index = int(text) if text.isdecimal() and len(text) < 10 else -1
        if not 0 <= index < len(self.raw):
            index = _index(text, f"field {name!r} of {node}")
        return self.node(index, node)

    def is_text(self, index: int) -> bool:
        """Whether a number is that of a node that holds a text."""
        return 0 < index < len(self.raw) and self.node(index).type in _STRINGS

    def text(self, node: GraphNode) -> str:
        """Return the text that a node holds."""
        if node.type in _TEXT_IN_FIELD and node.text is None:
            return self.plain_text(node.fields.get("value", ""))
        if node.type not in _STRINGS:
            raise ModelError(f"{node}: expected a text; the file is damaged")
        return node.text or ""

    def plain_text(self, value: str) -> str:
        """A field that is a text: in newer files a node that holds it."""
        index = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0
        return self.text(self.node(index)) if self.is_text(index) else value


def is_graph(text: str) -> bool:
    """Whether a saved program is a graph (else it is text for people)."""
    return text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")


def parse_graph(text: str, name: str, limits: RelayLimits = DEFAULT_LIMITS) -> RelayGraph:
    """Return a saved graph, whose nodes are checked as they are asked for.

    Raises
    ------
    ModelError
        The text is too large, no JSON, or no graph of the old TVM.
    """
    document = _json(text, name, limits)
    if not isinstance(document, dict):
        raise ModelError(f"{name}: expected a saved graph, got a JSON {type(document).__name__}")
    version = _version(document)
    nodes = document.get("nodes")
    if not isinstance(nodes, list) or "root" not in document:
        raise ModelError(_no_graph(document, name))
    if len(nodes) > limits.nodes:
        raise ModelError(f"{name}: {len(nodes)} nodes; at most {limits.nodes} are taken")
    arrays = document.get("b64ndarrays", [])
    if not isinstance(arrays, list):
        raise ModelError(f"{name}: 'b64ndarrays' is no list; the file is damaged")
    calls = sum(isinstance(n, dict) and n.get("type_key") == "relay.Call" for n in nodes)
    if calls > limits.steps:
        raise ModelError(f"{name}: {calls} calls; at most {limits.steps} are taken")
    root = _index(document["root"], f"{name}: 'root'")
    graph = RelayGraph(name, nodes, tuple(arrays), root, version)
    graph.node(graph.root, f"{name}: 'root'")
    return graph


def _no_graph(document: Mapping[str, Any], name: str) -> str:
    if "root_index" in document:
        return (
            f"{name}: saved by a TVM of 0.21 or newer, which has no Relay; this reads what "
            "tvm.ir.save_json of TVM 0.19 and older wrote of a Relay module"
        )
    if "arg_nodes" in document and "heads" in document:
        return (
            f"{name}: the graph of the graph executor, compiled already: kernels without their "
            "operators. Save the module before relay.build: tvm.ir.save_json(mod)"
        )
    keys = ", ".join(printable(key, 20) for key in list(document)[:5])
    return f"{name}: a saved graph has 'root' and 'nodes', this has {keys or 'nothing'}"


def _json(text: str, name: str, limits: RelayLimits) -> Any:
    """Parse JSON whose size in memory is bounded by what is counted before."""
    if len(text) > limits.file_bytes:
        raise ModelError(f"{name}: {len(text)} bytes; at most {limits.file_bytes} are taken")
    values = sum(text.count(mark) for mark in ",[{:")
    if values > limits.values:
        raise ModelError(f"{name}: about {values} values; at most {limits.values} are taken")
    try:
        document = json.loads(text.lstrip("\ufeff"))
        check_pairs(text, document)  # a name that cannot be written could be imported, and no more
        return document
    except FormatError as error:
        raise ModelError(f"{name}: {error}; the file is damaged") from None
    except RecursionError:
        raise ModelError(f"{name}: nested too deeply for a saved graph") from None
    except ValueError as error:
        raise ModelError(
            f"{name}: not valid JSON ({printable(error, 120)}): truncated? save it again"
        ) from None


def _version(document: Mapping[str, Any]) -> str:
    for place in (document, document.get("attrs"), document.get("metadata")):
        if isinstance(place, dict) and isinstance(place.get("tvm_version"), str):
            return printable(place["tvm_version"], 40)
    return ""


def _index(value: object, who: str) -> int:
    """The number of a node, from a number or text; ``null`` is none."""
    if type(value) is int:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if value in ("null", "", None):
        return 0
    raise ModelError(f"{who}: expected the number of a node, got '{printable(value, 40)}'")


def _node(index: int, raw: Any, name: str) -> GraphNode:
    """One node."""
    if not isinstance(raw, dict):
        raise ModelError(f"{name}: node {index}: expected an object, got {type(raw).__name__}")
    kind = raw.get("type_key", raw.get("node_type", raw.get("type")))
    if not isinstance(kind, str):
        raise ModelError(f"{name}: node {index} has no type_key; the file is damaged")
    node = GraphNode(index, _RENAMED.get(kind, kind))
    where = f"{name}: node {index}"
    fields = raw.get("attrs") or {}
    if not isinstance(fields, dict) or not _ONLY_TEXT.issuperset(map(type, fields.values())):
        raise ModelError(f"{where}: its attrs are no texts; the file is damaged")
    node.fields = fields
    if "data" in raw:
        node.data = tuple([_index(each, where) for each in _list(raw, "data", where)])
    if "keys" in raw:
        node.keys = _keys(raw, where)
    node.text = _text(raw, where)
    return node


def _keys(raw: Mapping[str, Any], where: str) -> tuple[str, ...]:
    keys = _list(raw, "keys", where)
    if not all(isinstance(key, str) for key in keys):
        raise ModelError(f"{where}: its keys are no texts; the file is damaged")
    return tuple(keys)


def _list(raw: Mapping[str, Any], key: str, where: str) -> list[Any]:
    found = raw.get(key) or []
    if not isinstance(found, list):
        raise ModelError(f"{where}: its {key} is no list; the file is damaged")
    return found


def _text(raw: Mapping[str, Any], where: str) -> str | None:
    text = raw.get("repr_str", raw.get("global_key"))
    if text is None and "repr_b64" in raw:
        return _decoded(raw["repr_b64"], where)
    if text is not None and not isinstance(text, str):
        raise ModelError(f"{where}: its repr_str is no text; the file is damaged")
    return text


def _decoded(text: Any, where: str) -> str:
    """A text that was not printable: base64 of its length in 8 bytes, and itself."""
    try:
        content = base64.b64decode(text, validate=True)
        (length,) = struct.unpack_from("<Q", content)
        return content[8 : 8 + length].decode("utf-8")
    except (binascii.Error, ValueError, TypeError, struct.error):
        raise ModelError(f"{where}: its repr_b64 is damaged; save it again") from None
