"""Throughput at once: stages along the topological order, each as full as a load and memory allow.

Next fit of bin packing, for a load T that is the same for all: devices come in the platform's
order, and each takes the next groups until one more would load it beyond T or not fit its memory.
Loads from all work on the quickest devices down to an equal share of it are tried, and the best
plan by its true loads, with copies, is the answer. It is not a good one, but takes time in
proportion to tasks and edges, where balancing loads takes tasks times devices: it is for where
there is no time for more.

Every device gets one run of the order, so no cycle leads from device to device: what has no colours
keeps rule 8, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.views.instance import Instance, instance_of

# Loads that are tried between all work and an equal share.
_STEPS = 20


def next_fit(problem: Problem, options: Options, name: str) -> Schedule:
    """The best plan of stages that next fit finds, as solver `name`.

    Raises
    ------
    InfeasibleError
        If for no load everything finds a place that links lead to.
    """
    instance = instance_of(problem)
    best, least = None, math.inf
    for load in _loads(instance):
        placement = _fill(instance, load)
        if placement is None:
            break
        value = exact_value(instance, placement)
        if value < least:
            best, least = placement, value
    if best is None:
        raise InfeasibleError(
            f"{name}: in topological order, some task finds no device with memory left, or no "
            "links lead there; add memory or links"
        )
    executions, copies = write_period(instance, best)
    return make_schedule(problem, name, executions, copies, seed=options.seed)


def _loads(instance: Instance) -> Iterator[float]:
    """Loads to try, the largest first: with no limit, then by equal factors."""
    everything = math.fsum(min(row) for row in instance.seconds)
    yield math.inf
    for step in range(_STEPS + 1):
        yield everything * len(instance.names) ** (-step / _STEPS)


def _fill(instance: Instance, load: float) -> list[int] | None:
    """The device of every part, with no more work than `load` on any; None if that fails."""
    placement = [-1] * len(instance)
    device, seconds, held, there = 0, 0.0, 0, set[int]()
    for group in instance.groups:
        while True:
            if device == len(instance.names):
                return None
            more = math.fsum(instance.seconds[v][device] for v in group)
            come = {t for v in group for t in (*instance.inputs[v], *instance.outputs[v])} - there
            own = sum(instance.tensors[t].nbytes for t in come)
            own += sum(instance.weights[v] + instance.unread[v] for v in group)
            limit = instance.capacity[device]
            if (
                seconds + more <= load
                and more < math.inf
                and (limit is None or held + own <= limit)
            ):
                break
            device, seconds, held, there = device + 1, 0.0, 0, set()
        seconds, held = seconds + more, held + own
        there |= come
        for v in group:
            placement[v] = device
    return placement
