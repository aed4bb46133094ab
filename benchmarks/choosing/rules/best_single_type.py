"""One kind of machine for everything, the one with which that is cheapest.

What is usual where nobody mixes: each kind in turn, every class with the variant and batch with
which, as far as there are so many machines of it, that is cheapest. Within one kind this is the
best choice, so whoever is cheaper mixes.
"""

from __future__ import annotations

from itertools import product

from benchmarks.choosing.rules.stock import (
    Counts,
    ReplicaCost,
    by_variant,
    cost_of_counts,
    replicas_of,
)
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.choosing.find_choice import Need, RatedRequest
from tvm_hetero.planning.choosing.program import Replicas


def pick_single_type(case: RatedRequest, need: Need, cost: ReplicaCost) -> Replicas:
    """Replicas on one kind of machine.

    Raises
    ------
    InfeasibleError
        If no kind alone is enough.
    """
    ways = [
        way
        for machine in case.request.machines
        if (way := _on(case, need, machine.name, machine.available, cost)) is not None
    ]
    if not ways:
        raise InfeasibleError("no kind of machine alone carries every class within its SLO")
    return replicas_of([min(ways, key=lambda counts: cost_of_counts(counts, cost))])


def _on(
    case: RatedRequest, need: Need, name: str, available: int, cost: ReplicaCost
) -> Counts | None:
    """The cheapest way on one kind, of equal ones that of fewest machines; None: there is none."""
    every = [
        [
            (each, -(-need[k] // each.capacity))
            for own in by_variant(case, k)
            for each in own
            if each.option.machine.name == name
        ]
        for k in range(len(case.request.classes))
    ]
    ways = [dict(way) for way in product(*every) if sum(n for _, n in way) <= available]
    return min(ways, key=lambda way: (cost_of_counts(way, cost), sum(way.values())), default=None)
