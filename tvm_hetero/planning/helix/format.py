"""Problems and layouts as documents, ``tvm-hetero/layer-flow/1`` and ``tvm-hetero/layer-layout/1``.

docs/formats.md says what stands in them. Bandwidths are bytes a second (or text, ``1GB/s``), sizes
bytes, rates tokens a second; what is made of them here is tokens a second throughout.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from tvm_hetero.errors import FormatError
from tvm_hetero.planning.helix.problem import (
    COORDINATOR,
    LayerFlowProblem,
    LayerInterval,
    LayerNode,
    Layout,
)
from tvm_hetero.util.documents import check_format, read_document
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import parse_bytes, parse_number, parse_rate

PROBLEM_FORMAT = "tvm-hetero/layer-flow/1"
LAYOUT_FORMAT = "tvm-hetero/layer-layout/1"
# What one problem may have at most: links are a table of pairs, searches walk over all layers.
MOST_NODES = 1000
MOST_LAYERS = 10_000

# Two names, the one where a token is and the one where it goes: bytes a second.
_Bandwidths = dict[tuple[str, str], float]


def load_layer_flow(path: str | os.PathLike[str]) -> LayerFlowProblem:
    """Read a problem from a file.

    Raises
    ------
    FormatError
        If the file cannot be read or says something unknown or of the wrong kind.
    """
    return parse_layer_flow(read_document(path), str(path))


def parse_layer_flow(data: object, where: str = "problem") -> LayerFlowProblem:
    """Read a problem; `where` begins every message.

    Raises
    ------
    FormatError
        If something is missing, unknown or of the wrong kind.
    """
    check_format(data, PROBLEM_FORMAT, where)
    row = Fields(
        data, where,
        ["format", "layers", "activation_bytes", "token_bytes", "kinds", "nodes"],
        ["name", "partial", "network", "links"],
    )  # fmt: skip
    layers = row.integer("layers", least=1, most=MOST_LAYERS)
    nodes = _read_nodes(row, _read_kinds(row, layers))
    names = [node.name for node in nodes]
    bandwidths = _read_bandwidths(row, names)
    activations, tokens = _read_size(row, "activation_bytes"), _read_size(row, "token_bytes")
    place = {name: i for i, name in enumerate(names)}
    return LayerFlowProblem(
        row.text("name", "layers"),
        layers,
        nodes,
        {
            (place[tail], place[head]): bandwidth / activations
            for (tail, head), bandwidth in bandwidths.items()
            if COORDINATOR not in (tail, head)
        },
        tuple(bandwidths.get((COORDINATOR, name), 0.0) / tokens for name in names),
        tuple(bandwidths.get((name, COORDINATOR), 0.0) / tokens for name in names),
        row.flag("partial", True),
    )


def _read_size(row: Fields, key: str) -> int:
    size = row.quantity(key, parse_bytes)
    if size < 1:
        row.refuse(key, "at least 1 byte")
    return size


def _read_kinds(row: Fields, layers: int) -> dict[str, tuple[float, ...]]:
    """The tables of all kinds of nodes, by name, as far as there are layers."""
    kinds = row.fields("kinds", optional=None)
    found = {}
    for name in kinds.data:
        table = Fields(kinds.data[name], kinds.at(str(name)), ["tokens_per_second"])
        rates = table.rows("tokens_per_second", parse_number)
        if not rates or not all(0 < rate < math.inf for rate in rates):
            table.refuse("tokens_per_second", "tokens a second with 1, 2, ... layers, each above 0")
        found[str(name)] = rates[:layers]
    return found


def _read_nodes(row: Fields, kinds: Mapping[str, tuple[float, ...]]) -> tuple[LayerNode, ...]:
    def read(data: object, where: str) -> LayerNode:
        fields = Fields(data, where, ["name", "kind"])
        kind = fields.name("kind")
        if kind not in kinds:
            raise FormatError(f"{where}: unknown kind {quote(kind)}{nearest(kind, kinds)}")
        return LayerNode(fields.name("name"), kinds[kind])

    nodes = row.rows("nodes", read, "node")
    if not 1 <= len(nodes) <= MOST_NODES:
        row.refuse("nodes", f"a list of 1 to {MOST_NODES} nodes")
    seen = {COORDINATOR}
    for i, node in enumerate(nodes):
        if node.name in seen:
            raise FormatError(
                f"{row.where}: node {i}: expected a name of its own, got {quote(node.name)}"
            )
        seen.add(node.name)
    return nodes


def _read_bandwidths(row: Fields, names: list[str]) -> _Bandwidths:
    """Bytes a second over each pair: the network's, and in their place those of `links`."""
    found: _Bandwidths = {}
    if row.has("network"):
        network = row.fields("network", ["bandwidth"], ["coordinator"])
        between = network.quantity("bandwidth", parse_rate)
        to_coordinator = network.quantity("coordinator", parse_rate, between)
        for name in names:
            found |= {(name, other): between for other in names if other != name}
            found |= {(name, COORDINATOR): to_coordinator, (COORDINATOR, name): to_coordinator}
    known = {*names, COORDINATOR}
    for i, data in enumerate(row.items("links", ())):
        link = Fields(data, f"{row.where}: link {i}", ["from", "to", "bandwidth"], ["both"])
        tail, head = link.name("from"), link.name("to")
        for key, name in (("from", tail), ("to", head)):
            if name not in known:
                raise FormatError(
                    f"{link.at(key)}: unknown node {quote(name)}{nearest(name, known)}"
                )
        if tail == head:
            link.refuse("to", "another node than it comes from")
        bandwidth = link.quantity("bandwidth", parse_rate)
        found[tail, head] = bandwidth
        if link.flag("both"):
            found[head, tail] = bandwidth
    return found


def parse_layer_layout(data: object, problem: LayerFlowProblem, where: str = "layout") -> Layout:
    """Read a layout of a problem.

    Raises
    ------
    FormatError
        If something is missing, unknown or of the wrong kind. Whether the layers fit, `judge` says.
    """
    check_format(data, LAYOUT_FORMAT, where)
    row = Fields(data, where, ["format", "holds"])
    holds = row.fields("holds", optional=[node.name for node in problem.nodes])
    found: list[LayerInterval | None] = []
    for node in problem.nodes:
        if node.name not in holds:
            found.append(None)
            continue
        pair = holds.integers(node.name, least=0)
        if len(pair) != 2:
            holds.refuse(node.name, "[first layer, number of layers]")
        found.append(LayerInterval(*pair))
    return tuple(found)


def layout_document(problem: LayerFlowProblem, layout: Layout) -> dict[str, Any]:
    """A layout as its document."""
    pairs = zip(problem.nodes, layout, strict=True)
    return {
        "format": LAYOUT_FORMAT,
        "holds": {node.name: list(held) for node, held in pairs if held is not None},
    }
