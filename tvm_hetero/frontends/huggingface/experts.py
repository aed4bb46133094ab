"""A mixture of experts: a router gives each token to few of many feed-forward networks.

All experts stand in the graph, each as three tasks, and what they compute is weighted and added
up. A token's weight is 0 for all experts but those it was given to; the tasks of an expert whose
weights are all 0 are skipped (`operators.gated`): a step costs as much as the experts it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax

from tvm_hetero.frontends.huggingface import operators
from tvm_hetero.frontends.huggingface.config import Config
from tvm_hetero.frontends.huggingface.graph import DecoderGraph
from tvm_hetero.frontends.huggingface.shards import divided

if TYPE_CHECKING:
    Shape = tuple[int, ...]

_PART = "block_sparse_moe"
_GATE, _DOWN, _UP = "w1", "w2", "w3"


def weight_shapes(config: Config) -> dict[str, Shape]:
    """Name and shape of every weight of a layer's experts and their router."""
    there, back = (config.inner, config.width), (config.width, config.inner)
    shapes: dict[str, Shape] = {f"{_PART}.gate.weight": (config.experts, config.width)}
    for expert in range(config.experts):
        for name, shape in ((_GATE, there), (_DOWN, back), (_UP, there)):
            shapes[f"{_PART}.experts.{expert}.{name}.weight"] = shape
    return shapes


def parts(graph: DecoderGraph, x: relax.Expr, layer: str) -> list[relax.Expr]:
    """What each expert (where there are several shards: each group of experts) adds."""
    router = graph.weight(f"{layer}.{_PART}.gate.weight").T
    given = operators.choose(graph.bb, graph.router(x, router), graph.config.chosen)
    found = [
        _expert(graph, x, weight, f"{layer}.{_PART}.experts.{expert}")
        for expert, weight in enumerate(given)
    ]
    if graph.plan.shards == 1:
        return found
    groups = divided(len(found), graph.plan.shards)
    return [operators.total(graph.bb, found[group]) for group in groups]


def _expert(graph: DecoderGraph, x: relax.Expr, weight: relax.Expr, name: str) -> relax.Expr:
    bb = graph.bb
    gate, up, down = (graph.weight(f"{name}.{kind}.weight").T for kind in (_GATE, _UP, _DOWN))
    # All three products end in `gated`, whichever of the first two TVM fuses with what follows.
    gates = operators.gated(bb, graph.activated(graph.linear(x, gate)), weight, times=False)
    ups = operators.gated(bb, graph.linear(x, up), weight, times=False)
    hidden = graph.factor(graph.times(ups, gates))
    hidden = operators.gated(bb, hidden, weight, times=False)
    return operators.gated(bb, graph.linear(hidden, down), weight, times=True)
