"""Slices of the load, each to the kind of machine that it costs least on, after Mélange.

T. Griggs, X. Liu, J. Yu, D. Kim, W.-L. Chiang, A. Cheung, I. Stoica: Mélange: Cost Efficient Large
Language Model Serving by Exploiting GPU Heterogeneity. arXiv 2404.14527, 2024. It profiles what
each kind carries within the SLO, divides each bucket of the load into slices and packs them onto
kinds of GPUs, paying for whole GPUs. There an integer program packs; here it is the greedy rule
with as many slices (8): each goes where whole machines cost least more, of equal ones where the
price for what a machine carries is least.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from benchmarks.choosing.rules.stock import (
    Counts,
    ReplicaCost,
    by_variant,
    serve_in_turn,
)
from tvm_hetero.planning.choosing.find_choice import Need, RatedRequest
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.program import Replicas

_SLICES = 8


def pick_melange(case: RatedRequest, need: Need, cost: ReplicaCost) -> Replicas:
    """Replicas that slices of each class's load were given to.

    Raises
    ------
    InfeasibleError
        If too few machines are left for a class.
    """

    def ways(k: int, left: Mapping[str, int]) -> list[Counts]:
        packed = (_pack(own, need[k], left, cost) for own in by_variant(case, k))
        return [way for way in packed if way is not None]

    return serve_in_turn(case, ways, cost)


def _pack(
    own: list[RatedOption], need: int, left: Mapping[str, int], cost: ReplicaCost
) -> Counts | None:
    """Slices one by one; None if there are too few machines."""
    loads = dict.fromkeys(own, 0)
    cuts = [need * i // _SLICES for i in range(_SLICES + 1)]
    for begin, end in pairwise(cuts):
        found = [
            (cost(each) * (_whole(each, load + end - begin) - _whole(each, load)),
             cost(each) / each.capacity, i, each)
            for i, (each, load) in enumerate(loads.items())
            if _fits(each, loads | {each: load + end - begin}, left)
        ]  # fmt: skip
        if not found:
            return None
        loads[min(found, key=lambda row: row[:3])[3]] += end - begin
    return {each: _whole(each, load) for each, load in loads.items()}


def _whole(rated: RatedOption, load: int) -> int:
    return -(-load // rated.capacity)


def _fits(rated: RatedOption, loads: dict[RatedOption, int], left: Mapping[str, int]) -> bool:
    """Whether there are machines of this kind for all its loads."""
    name = rated.option.machine.name
    on = [each for each in loads if each.option.machine.name == name]
    return sum(_whole(each, loads[each]) for each in on) <= left[name]
