"""The attributes of operators in a saved graph, where each field is a text of some type.

What a text means is a matter of the class (`fields`): a number, a text, or the number of a node.
"""

from __future__ import annotations

from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.program import Unsupported
from tvm_hetero.frontends.relay.core.trampoline import Walk
from tvm_hetero.frontends.relay.json_reader.fields import is_attributes, kind_of
from tvm_hetero.frontends.relay.json_reader.graph_file import GraphNode
from tvm_hetero.frontends.relay.json_reader.graph_leaves import INTEGERS, number
from tvm_hetero.frontends.relay.json_reader.graph_values import GraphValues

_MOST_FIELDS = 50


class Attributes(GraphValues):
    """Reads attributes."""

    def attributes(self, node: GraphNode) -> Walk:
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
            held = yield self.field(node, "__dict__")
            if held is not None and not isinstance(held, dict):
                raise ModelError(f"{self.name}: {node} has no mapping of attributes; damaged")
            return held or {}
        found = {}
        for name, text in node.fields.items():
            found[name] = yield self._attribute(node, name, text)
        return found

    def _attribute(self, node: GraphNode, name: str, text: str) -> Any:
        kind = kind_of(node.type, name)
        if kind == "n":  # an object where there is a number under it
            known = text.isdecimal() and len(text) < 10 and int(text) < len(self.graph.raw)
            kind = "o" if known and self.graph.node(int(text)).type in INTEGERS else "i"
        if kind in "ib":
            found = None if text == "null" else number(text, int, node)
            return bool(found) if kind == "b" else found
        if kind == "f":
            return number(text, float, node)
        if kind == "s":
            return self.graph.plain_text(text)
        return text if kind in "d?" else self.field(node, name)
