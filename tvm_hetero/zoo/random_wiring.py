"""Random wiring: undirected random graphs, directed from the smaller to the larger number.

S. Xie, A. Kirillov, R. Girshick, K. He: Exploring Randomly Wired Neural Networks for Image
Recognition, ICCV 2019, arXiv 1904.01569, doi:10.1109/ICCV.2019.00137 (section 3.2 and 3.3).
"""

from __future__ import annotations

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.work_graph import check_count

Wires = list[tuple[int, int]]
MODELS = ("ws", "er", "ba")
_WIRES_OF_A_NODE = 8


def wires(model: str, nodes: int, seed: int, neighbours: int = 4, chance: float = 0.75) -> Wires:
    """The wires of `nodes` nodes, sorted.

    `model` is ``ws`` (Watts-Strogatz: a ring in which each node has `neighbours`, every wire moved
    with `chance`), ``er`` (Erdos-Renyi: every wire with `chance`) or ``ba`` (Barabasi-Albert: every
    new node has `neighbours`).
    """
    import networkx as nx

    if model not in MODELS:
        raise UsageError(f"wiring {model!r}: expected one of {', '.join(MODELS)}")
    if nodes <= 2:
        return [(0, 1)][: nodes - 1]
    degree = min(neighbours, nodes - 1)
    check_count(f"wiring of {nodes} nodes", nodes)
    expected = nodes * (chance * (nodes - 1) / 2 if model == "er" else degree)
    check_count(f"wiring of {nodes} nodes", expected, "wires", _WIRES_OF_A_NODE)
    if model == "ws":
        graph = nx.connected_watts_strogatz_graph(nodes, degree, chance, tries=1000, seed=seed)
    elif model == "er":
        graph = nx.gnp_random_graph(nodes, chance, seed=seed)
    else:
        graph = nx.barabasi_albert_graph(nodes, degree, seed=seed)
    return sorted((min(a, b), max(a, b)) for a, b in graph.edges)


def neighbours_of(nodes: int, given: Wires) -> tuple[list[list[int]], list[bool]]:
    """For every node the nodes that it reads, and whether no other reads it."""
    reads: list[list[int]] = [[] for _ in range(nodes)]
    last = [True] * nodes
    for a, b in given:
        reads[b].append(a)
        last[a] = False
    return reads, last
