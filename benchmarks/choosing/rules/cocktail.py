"""Machines of the least price for what they carry first, as Cocktail procures them.

J. Gunasekaran, C. Mishra, P. Thinakaran, B. Sharma, M. Kandemir, C. Das: Cocktail: A
Multidimensional Optimization for Model Serving in Cloud. USENIX NSDI 2022. Its cost-aware
procurement ranks instances by cost over packing factor (what one carries within the SLO) and takes
whole ones of the best kind as long as they are full; the rest of the load goes to the machine that
carries it most cheaply. What is left out: ensembles of models, spot instances, and its forecast.
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
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.program import Replicas


def pick_cocktail(case: RatedRequest, need: Need, cost: ReplicaCost) -> Replicas:
    """Replicas by the least price for what they carry; a class has the variant that is cheapest so.

    Raises
    ------
    InfeasibleError
        If too few machines are left for a class.
    """

    def ways(k: int, left: Mapping[str, int]) -> list[Counts]:
        filled = (_fill(own, need[k], dict(left), cost) for own in by_variant(case, k))
        return [way for way in filled if way is not None]

    return serve_in_turn(case, ways, cost)


def _fill(
    own: list[RatedOption], need: int, left: dict[str, int], cost: ReplicaCost
) -> Counts | None:
    """Full machines of the best ratio, then the cheapest that carries the rest."""
    counts: dict[RatedOption, int] = {}
    for best in sorted(own, key=lambda each: cost(each) / each.capacity):
        name = best.option.machine.name
        enough = [each for each in own
                  if each.capacity >= need and left[each.option.machine.name] > 0]  # fmt: skip
        if enough and need < best.capacity:
            last = min(enough, key=cost)
            counts[last] = counts.get(last, 0) + 1
            return counts
        count = min(left[name], need // best.capacity)
        if count:
            counts[best] = counts.get(best, 0) + count
            left[name] -= count
            need -= count * best.capacity
        if need <= 0:
            return counts
    return _last(own, need, left, counts)


def _last(
    own: list[RatedOption], need: int, left: dict[str, int], counts: dict[RatedOption, int]
) -> Counts | None:
    """What is left is too much for one machine and too little for the kinds that were full."""
    for each in sorted(own, key=lambda each: -each.capacity):
        name = each.option.machine.name
        count = min(left[name], -(-need // each.capacity))
        counts[each] = counts.get(each, 0) + count
        left[name] -= count
        need -= count * each.capacity
        if need <= 0:
            return counts
    return None
