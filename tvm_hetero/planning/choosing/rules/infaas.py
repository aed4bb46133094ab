"""For each class the cheapest pair of a variant and a machine, as INFaaS chooses.

F. Romero, Q. Li, N. Yadwadkar, C. Kozyrakis: INFaaS: Automated Model-less Inference Serving. USENIX
ATC 2021. Of the model-variants (a model, a hardware, a batch) that meet a query's accuracy and
latency it takes the one of the least cost, and replicates it with the load. Classes are served in
the order of the question, each with what is left. What is left out: sharing of machines by models,
and the moves between variants while the load changes.
"""

from __future__ import annotations

from tvm_hetero.planning.choosing.find_choice import Need, RatedRequest
from tvm_hetero.planning.choosing.program import Replicas
from tvm_hetero.planning.choosing.rules.stock import (
    Counts,
    MachineStock,
    by_variant,
    cheapest,
    replicas_of,
)


def pick_infaas(case: RatedRequest, need: Need) -> Replicas:
    """Replicas of one option a class.

    Raises
    ------
    InfeasibleError
        If too few machines are left for a class.
    """
    stock = MachineStock(case)
    found: list[Counts] = []
    for k, served in enumerate(case.request.classes):
        ways = [
            {each: count}
            for own in by_variant(case, k)
            for each in own
            if (count := -(-need[k] // each.capacity)) <= stock.left[each.option.machine.name]
        ]
        found.append(cheapest(ways, served.name))
        stock.take(found[-1])
    return replicas_of(found)
