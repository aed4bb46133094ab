"""Small random problems of layers in a row, and their best layouts found by trying all."""

from __future__ import annotations

import itertools
import random

from tvm_hetero.planning.helix.judge import judge
from tvm_hetero.planning.helix.problem import LayerFlowProblem, LayerInterval, LayerNode


def random_layer_flow(seed: int, *, wide: bool = False, partial: bool = True) -> LayerFlowProblem:
    """Two to four nodes of one to three kinds; `wide`: links that never bind, else any or none."""
    rng = random.Random(seed)
    layers = rng.randint(2, 4)
    kinds = [_table(rng, layers) for _ in range(rng.randint(1, 3))]
    count = rng.randint(2, 4 if layers < 4 else 3)
    nodes = tuple(LayerNode(f"n{i}", rng.choice(kinds)) for i in range(count))

    def link() -> float:
        return 1000.0 if wide else rng.choice((0.0, 1.5, 4.0, 9.0, 1000.0))

    pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
    return LayerFlowProblem(
        f"random-{seed}", layers, nodes, {pair: link() for pair in pairs},
        tuple(link() for _ in nodes), tuple(link() for _ in nodes), partial,
    )  # fmt: skip


def _table(rng: random.Random, layers: int) -> tuple[float, ...]:
    """Rates that mostly fall with the number of layers, as measured ones do."""
    first = rng.uniform(4, 20)
    most = rng.randint(1, layers)
    return tuple(first / k * rng.uniform(0.7, 1.2) for k in range(1, most + 1))


def best_by_trying_all(problem: LayerFlowProblem) -> float:
    """The throughput of the best of all layouts; 0 if none passes anything."""
    choices = [
        [
            None,
            *(
                LayerInterval(first, count)
                for count in range(1, len(node.rates) + 1)
                for first in range(problem.layers - count + 1)
            ),
        ]
        for node in problem.nodes
    ]
    return max(judge(problem, layout).value for layout in itertools.product(*choices))
