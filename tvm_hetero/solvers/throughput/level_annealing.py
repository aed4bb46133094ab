"""Annealing for throughput in two levels, again and again: blocks of neighbours, then groups.

Where copies are dear, single moves do not get a block of tasks from one device to another: the
first of them parts the block, and that costs more than what follows gains. So, as in partitioning
graphs by levels (B. Hendrickson and R. Leland, Supercomputing 1995, doi:10.1145/224170.224228) and
in cycles (C. Walshaw, Annals of Operations Research 131, 2004,
doi:10.1023/B:ANOR.0000039525.80601.15), each round

    1. glue     joins neighbours that are on one device, the dearest copies first, as long as the
                lighter of two works no longer than some times what a copy between them takes, and
                both together no longer than some part of the bound                      -> `_glue`
    2. coarse   anneals the blocks from the plan that is known, which is a plan of theirs
    3. fine     anneals the groups from what that found

and begins at the best plan so far. How much is glued and how hot it is are drawn anew for each
round. `python -m benchmarks.msr --only throughput` prints what is found where copies are dear.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.native.library import NativeSearch
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.ideals import kinds_of, least_hops
from tvm_hetero.views.instance import Instance

# Steps of a round, at least, and for each group, and the part of them that is coarse. With the same
# steps in all, rounds of 8 million found worse plans of MSR's layers, and those of 1 million once.
_STEPS, _STEPS_A_GROUP, _COARSE = 2_000_000, 3_000, 1 / 3
# What rounds are drawn from: the longest block in parts of the bound; how many times a copy the
# lighter one may work; first temperatures in parts of the bound; and how far a copy's seconds are
# off when the dearest are looked for (standard deviation of their logarithm).
_HEAVY = (0.1, 0.25, 0.5)
_TIMES = (0.3, 1.0, 3.0, math.inf)
_HOT, _COOL = (3e-2, 1e-2, 3e-3, 1e-3), (1e-3, 3e-4, 1e-4)
_NOISE = 0.5


@dataclass(frozen=True)
class _NeighbourCosts:
    """What gluing looks at: seconds of a copy between two groups, and the work of each group."""

    copies: dict[tuple[int, int], float]
    work: list[float]


def anneal_in_levels(
    instance: Instance,
    plan: Sequence[int],
    bound: float,
    options: Options,
    steps: int,
    seconds: float,
    turn: int = 0,
) -> list[int] | None:
    """The best placement of some rounds; None without the library.

    Parameters
    ----------
    plan : where to begin: a placement that is valid.
    bound : of the value, s; with none there is nothing to measure blocks by.
    steps : of the annealer, in all.
    seconds : of the wall, after which no round is begun.
    turn : added to the seed, where it is asked more than once.
    """
    least, best = exact_value(instance, plan), list(plan)
    if bound <= 0 or least == math.inf:
        return None
    rng = random.Random(options.seed + turn)
    each = max(_STEPS, _STEPS_A_GROUP * len(instance.groups))
    until = now() + seconds
    try:
        fine, blocks = NativeSearch(instance), _measure(instance)
        for _ in range(max(1, int(steps // each))):
            left = until - now()
            if left <= 0 or options.within_gap(least, bound):
                break
            coarse = _glued(instance, _glue(instance, blocks, best, bound, rng))
            found = _anneal(instance, NativeSearch(coarse), best, bound, rng, _HOT,
                            work=_COARSE * each, deadline=max(0.01, left))  # fmt: skip
            found = _anneal(instance, fine, found, bound, rng, _COOL,
                            work=(1 - _COARSE) * each, deadline=max(0.01, left))  # fmt: skip
            value = exact_value(instance, found)
            if value <= least:
                best, least = found, value
    except SolverError:
        return None
    return best


def _anneal(
    instance: Instance,
    search: NativeSearch,
    plan: list[int],
    bound: float,
    rng: random.Random,
    heats: Sequence[float],
    *,
    work: float,
    deadline: float,
) -> list[int]:
    """What annealing one level makes of a plan; the plan itself if nothing valid comes of it."""
    heat = rng.choice(heats) * bound / exact_value(instance, plan)
    seed = rng.randrange(2**31)
    run = search.anneal_loads(plan, work=int(work), seed=seed, heat=heat, deadline=deadline)
    return list(run.placement) if run.feasible else plan


def _measure(instance: Instance) -> _NeighbourCosts:
    """Copies and work on the devices of which there are most."""
    arrive, leave = least_hops(instance)
    kinds = kinds_of(instance, arrive, leave)
    d = max(kinds, key=lambda kind: len(kind.devices)).devices[0]
    table = rates(instance)
    own = np.where(np.isfinite(table[:, d]), table[:, d], table.min(axis=1))
    copies: dict[tuple[int, int], float] = {}
    for t, flow in enumerate(instance.tensors):
        maker = instance.group_of[flow.maker]
        readers = sorted({instance.group_of[w] for w in flow.readers} - {maker})
        for w in readers:
            pair = (min(maker, w), max(maker, w))
            seconds = float(max(arrive[t, d], leave[t, d])) / math.sqrt(len(readers))
            copies[pair] = copies.get(pair, 0.0) + seconds
    return _NeighbourCosts(
        copies, [math.fsum(own[list(group)].tolist()) for group in instance.groups]
    )


def _glue(
    instance: Instance,
    blocks: _NeighbourCosts,
    plan: Sequence[int],
    bound: float,
    rng: random.Random,
) -> list[tuple[int, ...]]:
    """Larger groups, each on one device of the plan, with the parts in topological order."""
    longest, times = rng.choice(_HEAVY) * bound, rng.choice(_TIMES)
    leader, work = list(range(len(instance.groups))), list(blocks.work)
    near = {
        (a, b): seconds * math.exp(rng.gauss(0.0, _NOISE))
        for (a, b), seconds in blocks.copies.items()
        if plan[instance.groups[a][0]] == plan[instance.groups[b][0]]
        and instance.devices[instance.groups[a][0]] == instance.devices[instance.groups[b][0]]
    }
    glued = True
    while glued:
        glued = False
        joint: dict[tuple[int, int], float] = {}
        for (a, b), seconds in near.items():
            a, b = _lead(leader, a), _lead(leader, b)
            if a != b:
                pair = (min(a, b), max(a, b))
                joint[pair] = joint.get(pair, 0.0) + seconds
        near = joint
        for (a, b), seconds in sorted(joint.items(), key=lambda item: (-item[1], item[0])):
            a, b = _lead(leader, a), _lead(leader, b)
            fits = work[a] + work[b] <= longest and min(work[a], work[b]) <= times * seconds
            if a != b and fits:
                leader[b] = a
                work[a] += work[b]
                glued = True
    members: dict[int, list[int]] = {}
    for v in instance.order:
        members.setdefault(_lead(leader, instance.group_of[v]), []).append(v)
    return [tuple(own) for own in members.values()]


def _lead(leader: list[int], g: int) -> int:
    """The group that stands for the block of a group; the way there is shortened."""
    while leader[g] != g:
        leader[g] = leader[leader[g]]
        g = leader[g]
    return g


def _glued(instance: Instance, groups: Sequence[tuple[int, ...]]) -> Instance:
    """The instance with larger groups."""
    coarse = copy.copy(instance)
    coarse.groups = tuple(groups)
    coarse.group_of = {v: g for g, group in enumerate(groups) for v in group}
    return coarse
