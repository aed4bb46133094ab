"""Starts for throughput from a coarse graph: neighbours that few plans would part are one group.

Where copies are dear, single moves of an annealer do not get a block of tasks from one device to
another: the first of them parts the block, and that costs more than anything that follows gains.
So, as in partitioning graphs by levels (B. Hendrickson and R. Leland, Supercomputing 1995,
doi:10.1145/224170.224228),

    1. glue    two neighbours become one where a copy between them takes as long as the lighter one
               works, the dearest copies first, and the two are not too heavy together  -> `_glue`
    2. anneal  the coarse graph, from a plan and hot
    3. refine  the answer on the graph as it is, cool

Nothing is lost: the coarse plan is a plan. 783 operators of BERT become 40, of which a second of
annealing finds the optimum, where it stops 3 to 4 % above it without.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence

import numpy as np

from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.ideals import kinds_of, least_hops
from tvm_hetero.views.instance import Instance

# The part of the bound that a glued group may take.
_HEAVY = 0.25
# Groups that are left, in parts of those before, above which gluing gains nothing.
_COARSE = 0.8
# Steps of a run for each second of the limit, coarse and fine, and how many runs.
_STEPS, _FINE_STEPS, _RUNS = 400_000, 200_000, 2
# First temperatures in parts of the bound.
_HOT, _COOL = 0.3, 1e-3


def glued_start(
    instance: Instance, plan: Sequence[int], bound: float, options: Options, seconds: float
) -> list[int] | None:
    """The best placement by way of a coarse graph; None where there is none, or nothing to glue.

    Parameters
    ----------
    plan : where the annealer begins.
    bound : of the value, s.
    seconds : wall seconds that it may take.
    """
    from tvm_hetero.solvers.native.library import NativeSearch

    value = exact_value(instance, plan)
    if bound <= 0 or value == math.inf:
        return None
    groups = _glue(instance, _HEAVY * bound)
    if len(groups) > _COARSE * len(instance.groups):
        return None
    coarse = _with_groups(instance, groups)
    begin = _heaviest_first(instance, groups, plan)
    until = time.monotonic() + seconds
    best, least = None, math.inf
    try:
        search, fine = NativeSearch(coarse), NativeSearch(instance)
    except SolverError:
        return None
    for i in range(_RUNS):
        for stage, rate, heat in ((search, _STEPS, _HOT), (fine, _FINE_STEPS, _COOL)):
            start = begin if stage is search else list(run.placement)
            run = stage.anneal_loads(
                start,
                work=max(1, int(rate * options.time_limit)),
                seed=options.seed + i,
                heat=heat * bound / max(bound, _finite(exact_value(instance, start), bound)),
                deadline=max(0.01, (until - time.monotonic()) / (_RUNS - i)),
            )
        found = exact_value(instance, run.placement) if run.feasible else math.inf
        if found < least:
            best, least = list(run.placement), found
    return best


def _finite(value: float, otherwise: float) -> float:
    return value if value < math.inf else otherwise


def _glue(instance: Instance, most: float) -> list[tuple[int, ...]]:
    """The groups after gluing, each in topological order."""
    copies, work = _costs(instance)
    leader = list(range(len(instance.groups)))

    def lead(g: int) -> int:
        while leader[g] != g:
            leader[g] = leader[leader[g]]
            g = leader[g]
        return g

    glued = True
    while glued:
        glued = False
        joint: dict[tuple[int, int], float] = {}
        for (a, b), seconds in copies.items():
            a, b = sorted((lead(a), lead(b)))
            if a != b:
                joint[a, b] = joint.get((a, b), 0.0) + seconds
        for (a, b), seconds in sorted(joint.items(), key=lambda item: (-item[1], item[0])):
            a, b = lead(a), lead(b)
            alike = instance.devices[instance.groups[a][0]] == instance.devices[instance.groups[b][0]]
            if a != b and alike and min(work[a], work[b]) <= seconds and work[a] + work[b] <= most:
                leader[b] = a
                work[a] += work[b]
                glued = True
    members: dict[int, list[int]] = {}
    for v in instance.order:
        members.setdefault(lead(instance.group_of[v]), []).append(v)
    return [tuple(own) for own in members.values()]


def _costs(instance: Instance) -> tuple[dict[tuple[int, int], float], list[float]]:
    """What parting two neighbours costs, and the work of every group, on the commonest devices."""
    arrive, leave = least_hops(instance)
    commonest = max(kinds_of(instance, arrive, leave), key=lambda kind: len(kind.devices))
    d = commonest.devices[0]
    table = rates(instance)
    own = np.where(np.isfinite(table[:, d]), table[:, d], table.min(axis=1))
    work = [math.fsum(own[list(group)].tolist()) for group in instance.groups]
    copies: dict[tuple[int, int], float] = {}
    for t, flow in enumerate(instance.tensors):
        seconds = float(max(arrive[t, d], leave[t, d]))
        maker = instance.group_of[flow.maker]
        readers = sorted({instance.group_of[w] for w in flow.readers} - {maker})
        for w in readers:
            pair = (min(maker, w), max(maker, w))
            copies[pair] = copies.get(pair, 0.0) + seconds / math.sqrt(len(readers))
    return copies, work


def _with_groups(instance: Instance, groups: Sequence[tuple[int, ...]]) -> Instance:
    """The instance with larger groups."""
    coarse = copy.copy(instance)
    coarse.groups = tuple(groups)
    coarse.group_of = {v: g for g, group in enumerate(groups) for v in group}
    return coarse


def _heaviest_first(
    instance: Instance, groups: Sequence[tuple[int, ...]], plan: Sequence[int]
) -> list[int]:
    """Each glued group where the plan has its longest part."""
    places = list(plan)
    for group in groups:
        longest = max(group, key=lambda v: (instance.seconds[v][plan[v]], -v))
        for v in group:
            places[v] = plan[longest]
    return places
