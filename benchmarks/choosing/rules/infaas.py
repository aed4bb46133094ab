"""For each class the cheapest pair of a variant and a machine, as INFaaS chooses.

F. Romero, Q. Li, N. Yadwadkar, C. Kozyrakis: INFaaS: Automated Model-less Inference Serving. USENIX
ATC 2021. Of the model-variants (a model, a hardware, a batch) that meet a query's accuracy and
latency it takes the one of the least cost, and replicates it with the load. Classes are served in
the order of the question, each with what is left. What is left out: sharing of machines by models,
and the moves between variants while the load changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.choosing.rules.stock import (
    Counts,
    ReplicaCost,
    by_variant,
    serve_in_turn,
)
from tvm_hetero.planning.choosing.find_choice import Need, RatedRequest
from tvm_hetero.planning.choosing.program import Replicas


def pick_infaas(case: RatedRequest, need: Need, cost: ReplicaCost) -> Replicas:
    """Replicas of one option a class.

    Raises
    ------
    InfeasibleError
        If too few machines are left for a class.
    """

    def ways(k: int, left: Mapping[str, int]) -> list[Counts]:
        return [
            {each: count}
            for own in by_variant(case, k)
            for each in own
            if (count := -(-need[k] // each.capacity)) <= left[each.option.machine.name]
        ]

    return serve_in_turn(case, ways, cost)
