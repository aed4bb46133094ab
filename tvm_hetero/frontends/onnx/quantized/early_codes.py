"""Codes made before data are moved, not behind: a quarter of the bytes on the way.

    QuantizeLinear(Concat(a, b, ..))  =  Concat(QuantizeLinear(a), QuantizeLinear(b), ..)
    QuantizeLinear(MaxPool(a))        =  MaxPool(QuantizeLinear(a))

and so for Reshape, Transpose, Flatten, Squeeze and Unsqueeze: what only moves values gives the same
whether they are rounded before or behind, and so does what picks the largest, since rounding keeps
their order. Codes are then written by whatever makes `a`, in one pass.

Only where all readers of a result make the same codes of it, and nothing else reads what it is made
of: no value is written both as a number and as a code that was not before. Readers of one value
that make the same codes become one.

Bounds that codes have anyway are left out:

    QuantizeLinear(Relu(a))  =  QuantizeLinear(a)      if the zero point is the least code

and so for Clip. Where a convolution makes `a`, it then writes codes with one multiplication and no
division (`dequantized_convolutions`), as ONNX Runtime does.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.quantized.plain_codes import PlainCodes, plain_codes

# The number of operands that are moved; None: all of them.
_MOVERS: dict[str, int | None] = {
    "Concat": None, "MaxPool": 1, "Reshape": 1, "Transpose": 1, "Flatten": 1, "Squeeze": 1,
    "Unsqueeze": 1,
}  # fmt: skip


def quantize_early(graph: OnnxGraph) -> None:
    """Move each QuantizeLinear up over what only moves values, in place; see the file's text."""
    moved = _Moving(graph)
    # From the last node on: codes that were moved over one node may go on over the one before.
    for node in reversed(list(graph.nodes)):
        if node.domain or len(node.output) != 1:
            continue
        if node.op_type in _MOVERS:
            moved.move_over(node)
        elif node.op_type in ("Relu", "Clip"):
            moved.leave_out(node)
    graph.nodes = moved.nodes()


class _Moving:
    """A graph in which quantisers move up."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._readers = graph.consumers()
        self._makers = graph.makers()
        self._outputs = graph.output_names
        self._dropped: set[int] = set()
        self._before: dict[int, list[NodeProto]] = {}
        self._merge_equal()

    def nodes(self) -> list[NodeProto]:
        """The nodes as they are now, in topological order."""
        found: list[NodeProto] = []
        for node in self._graph.nodes:
            found += [q for q in self._before.get(id(node), []) if id(q) not in self._dropped]
            if id(node) not in self._dropped:
                found.append(node)
        return found

    def move_over(self, node: NodeProto) -> None:
        """Make codes of what a node reads instead of what it makes, where that is the same."""
        (result,), count = node.output, _MOVERS[node.op_type]
        readers = self._readers.get(result, [])
        if len(readers) != 1 or result in self._outputs:
            return
        (quantizer,) = readers
        sources = list(dict.fromkeys(node.input[:count]))
        wanted = plain_codes(self._graph, quantizer)
        if wanted is None:
            return
        codes = {name: self._known_codes(name, wanted) for name in sources}
        if not all(codes[name] or self._is_read_once(name) for name in sources):
            return
        for name in sources:
            codes[name] = codes[name] or self._add_quantizer(node, name, quantizer)
        for place, name in enumerate(node.input[:count]):
            node.input[place] = codes[name]
        node.output[0] = quantizer.output[0]
        self._dropped.add(id(quantizer))

    def leave_out(self, node: NodeProto) -> None:
        """Let a reader read what was not bounded yet, where its codes are as bounded."""
        (result,), readers = node.output, self._readers.get(node.output[0], [])
        wanted = plain_codes(self._graph, readers[0]) if len(readers) == 1 else None
        bounds = self._bounds_of(node)
        if wanted is None or bounds is None or result in self._outputs:
            return
        scale = np.float32(wanted.scale)
        low, high = (np.round(np.float32(bound) / scale) + wanted.zero for bound in bounds)
        if low <= wanted.least and high >= wanted.most:
            readers[0].input[0] = node.input[0]
            others = [each for each in self._readers[node.input[0]] if each is not node]
            self._readers[node.input[0]] = [*others, readers[0]]
            self._dropped.add(id(node))

    def _bounds_of(self, node: NodeProto) -> tuple[float, float] | None:
        """Between what a Relu or Clip leaves values; None where that is not known."""
        if node.op_type == "Relu":
            return 0.0, np.inf
        if len(node.input) == 1 and node.attribute:
            return None  # an old Clip
        found = [-np.inf, np.inf]
        for place, name in enumerate(node.input[1:3]):
            if name and (name not in self._graph.constants or self._graph.size(name) != 1):
                return None
            found[place] = float(self._graph.array(name).reshape(())) if name else found[place]
        return None if np.isnan(found).any() else (found[0], found[1])

    def _known_codes(self, name: str, wanted: PlainCodes) -> str:
        """The codes of which a value was made, where they are the wanted ones; else ``''``."""
        maker = self._makers.get(name)
        if maker is None:
            return ""
        found = plain_codes(self._graph, maker, "DequantizeLinear")
        return maker.input[0] if found == wanted else ""

    def _add_quantizer(self, node: NodeProto, name: str, like: NodeProto) -> str:
        """Make codes of a value before a node."""
        codes = self._graph.fresh(f"{name}_codes")
        made = helper.make_node("QuantizeLinear", [name, *like.input[1:]], [codes])
        made.name = self._graph.fresh(f"{like.name or codes}_early")
        self._readers[name] = [made]
        self._before.setdefault(id(node), []).append(made)
        return codes

    def _is_read_once(self, name: str) -> bool:
        """Whether one node reads a value that some other node makes."""
        if name not in self._makers or name in self._outputs:
            return False
        return len({id(node) for node in self._readers.get(name, [])}) == 1

    def _merge_equal(self) -> None:
        """Let equal quantisers of one value be one."""
        renamed: dict[str, str] = {}
        for name, readers in list(self._readers.items()):
            first: dict[PlainCodes, NodeProto] = {}
            for reader in readers:
                codes = plain_codes(self._graph, reader)
                if codes is None or reader.input[0] != name or reader.output[0] in self._outputs:
                    continue
                kept = first.setdefault(codes, reader)
                if kept is not reader:
                    renamed[reader.output[0]] = kept.output[0]
                    self._dropped.add(id(reader))
        self._graph.rename_uses(renamed)
        self._readers = self._graph.consumers()
        for name, readers in self._readers.items():
            self._readers[name] = [r for r in readers if id(r) not in self._dropped]
