"""A graph neural network with several relations: messages along each, summed where they arrive.

R-GCN (M. Schlichtkrull et al.: Modeling Relational Data with Graph Convolutional Networks, ESWC
2018, arXiv 1703.06103) on the citation graph ogbn-mag (W. Hu et al.: Open Graph Benchmark, arXiv
2005.00687: numbers of nodes and edges). One element is a pass over the whole graph.
"""

from __future__ import annotations

from tvm_hetero.zoo.work_graph import Builder, Value, WorkGraph

NODES = {"paper": 736389, "author": 1134649, "institution": 8740, "field": 59965}
# From, to, edges; each is followed in both directions, and a paper's citations both ways too.
RELATIONS = (
    ("author", "institution", 1043998),
    ("author", "paper", 7145660),
    ("paper", "paper", 5416271),
    ("paper", "field", 7505078),
)
_FEATURES, _CLASSES = 128, 349


def gnn(layers: int = 2, width: int = 64, scale: float = 0.01) -> WorkGraph:
    """R-GCN of `layers` layers on `scale` of the graph's nodes and edges."""
    net = Builder(f"rgcn-{layers}x{width}")
    counts = {kind: max(1, round(scale * count)) for kind, count in NODES.items()}
    x = {kind: net.input(count, _FEATURES) for kind, count in counts.items()}
    both = [*RELATIONS, *((b, a, count) for a, b, count in RELATIONS)]
    for layer in range(layers):
        outer = width if layer < layers - 1 else _CLASSES
        # What the last layer makes of authors or fields, no one reads.
        wanted = list(NODES) if layer < layers - 1 else ["paper"]
        sent: dict[str, list[Value]] = {kind: [] for kind in NODES}
        for a, b, count in both:
            if b in wanted:
                sent[b].append(_message(net, x[a], counts[b], outer, round(scale * count)))
        x = {kind: _update(net, x[kind], sent[kind], outer) for kind in wanted}
    net.output(x["paper"])
    return net.build()


def _message(net: Builder, x: Value, receivers: int, outer: int, edges: int) -> Value:
    """Transform the senders, gather along the edges, add up by receiver."""
    senders, inner = x.shape
    weights = inner * outer
    return net.add(
        "message",
        "elementwise",
        [x],
        (receivers, outer),
        flops=2.0 * senders * weights + 2.0 * edges * outer,
        weights=weights,
        # Rows are gathered one by one, with two numbers of each edge's ends.
        traffic=x.size + senders * outer + edges * (outer + 2) + receivers * outer,
    )


def _update(net: Builder, x: Value, sent: list[Value], outer: int) -> Value:
    """The node's own transformation, plus all messages, through the nonlinearity."""
    count, inner = x.shape
    weights = inner * outer
    flops = 2.0 * count * weights + len(sent) * count * outer
    return net.add("update", "gemm", [x, *sent], (count, outer), flops=flops, weights=weights)
