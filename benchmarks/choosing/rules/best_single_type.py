"""One kind of machine for everything, the one with which that is cheapest.

What is usual where nobody mixes: each kind in turn, every class with the variant and batch that
takes fewest machines of it. Within one kind this is the best choice, so whoever is cheaper mixes.
"""

from __future__ import annotations

from benchmarks.choosing.rules.stock import by_variant, price_of_counts, replicas_of
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.choosing.find_choice import Need, RatedRequest
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.program import Replicas


def pick_single_type(case: RatedRequest, need: Need) -> Replicas:
    """Replicas on one kind of machine.

    Raises
    ------
    InfeasibleError
        If no kind alone is enough.
    """
    ways = []
    for machine in case.request.machines:
        counts = _on(case, need, machine.name)
        if counts is not None and sum(counts.values()) <= machine.available:
            ways.append(counts)
    if not ways:
        raise InfeasibleError("no kind of machine alone carries every class within its SLO")
    return replicas_of([min(ways, key=price_of_counts)])


def _on(case: RatedRequest, need: Need, name: str) -> dict[RatedOption, int] | None:
    """The fewest machines of one kind; None if some class cannot be served by it."""
    found: dict[RatedOption, int] = {}
    for k in range(len(case.request.classes)):
        rows = [each for own in by_variant(case, k) for each in own
                if each.option.machine.name == name]  # fmt: skip
        if not rows:
            return None
        best = max(rows, key=lambda each: each.capacity)
        found[best] = -(-need[k] // best.capacity)
    return found
