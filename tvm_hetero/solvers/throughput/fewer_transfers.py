"""Of throughput plans that are about as good, the one that hands over the least.

By the rules a hand-over between CPU devices keeps no device busy (rules 4 and 7), so a solver
scatters tasks as it likes. A real core pays for each tensor that comes from another one. So plans
are compared by the largest paid(d)                                           -> `effective_load`

    paid(d) = busy(d) + sum of extra(d, t) over the tensors t that are handed over in one memory,

    hand-over(t) = (1 - cold) link.seconds(bytes) + cold link.cold_seconds(bytes),
    extra(d, t)  = hand-over(t) at the end where t arrives, if both devices overlap copies;
                   hand-over(t) - link.seconds(bytes) at each end that does not (busy has it),
    cold         = max(0, 1 - CACHE / ((S + 2) B)),   B = the bytes of all these tensors in a batch,
                             S = the largest number of hand-overs on a way    -> `_depth`

Candidates are the solver's plan, whole elements (`_elements`), contiguous stages (`_stages`) and
interleaved ones, of which one device or two have a second part (`_interleaved`). The first of the
plain ones that is paid up to `TOLERANCE` more for than the best of all takes its place. Its value
may be larger than the solver's; the lower bound stays. A plan of little depth also has few batches
in flight, so a request is through sooner. Where the solver's plan hands over nothing in one memory
(accelerators, whose copies the rules have counted), there is nothing to save, and a plain plan has
to be as good.

Derivation: docs/method/fewer-transfers.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from tvm_hetero.check.checker import verified
from tvm_hetero.errors import HeteroError
from tvm_hetero.platform.devices import HOST_KINDS, Link
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import loads
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.deadline import Deadline, time_is_up
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.stage_dp.linear_dp import linear_plan
from tvm_hetero.solvers.throughput import whole_elements
from tvm_hetero.solvers.throughput.interleaved_stages import interleaved_plans
from tvm_hetero.solvers.timing.steady_period import placement_of, write_period
from tvm_hetero.views.instance import instance_of

# What predictions are off by (docs/performance.md), though nothing has changed.
TOLERANCE = 0.03
# Bytes of a last-level cache: those of today's dies have 16 to 96 MiB for their cores.
CACHE = 32 * 2**20
# Seconds that a task takes at the least where stages along an order are looked for, and those that
# interleaved ones take along two orders.
_A_TASK, _A_TABLE = 0.5e-3, 2.0


def prefer_fewer_transfers(
    problem: Problem, schedule: Schedule, ends: Deadline | None = None
) -> Schedule:
    """The schedule, or a plainer one that devices pay less for (see the file's text).

    Other objectives than throughput, and contiguous stages, stay as they are; so does the schedule
    where the time is up before a plainer one is found.
    """
    if schedule.kind != "throughput" or problem.objective.contiguous or time_is_up(ends):
        return schedule
    stages = _stages(problem, ends)
    plans = [_elements(problem), stages, *_interleaved(problem, schedule, stages, ends), schedule]
    paid_for = [(effective_load(problem, each), each) for each in plans if each is not None]
    tolerance = TOLERANCE if _passed_in_memory(problem, schedule) else 0.0
    enough = min(seconds for seconds, _ in paid_for) * (1 + tolerance)
    seconds, best = next(each for each in paid_for if each[0] <= enough)
    plainer = _handed_over(best) < _handed_over(schedule)
    if not plainer and seconds >= effective_load(problem, schedule):
        return schedule
    kept = replace(
        best,
        lower_bound=min(schedule.lower_bound, best.value),
        best_single_device=schedule.best_single_device,
        seed=schedule.seed,
        seconds=schedule.seconds,
    )
    return verified(problem, kept)


def effective_load(problem: Problem, schedule: Schedule) -> float:
    """What the device that pays most pays for a batch, s."""
    busy = dict(loads(problem, schedule.executions, schedule.copies))
    passed = _passed_in_memory(problem, schedule)
    waiting = (_depth(problem, schedule) + 2) * sum(nbytes for _, nbytes in passed)
    cold = 1 - CACHE / max(waiting, CACHE)
    for link, nbytes in passed:
        seconds = (1 - cold) * link.seconds(nbytes) + cold * link.cold_seconds(nbytes)
        src, dst = (problem.platform.device(name) for name in (link.src, link.dst))
        if src.overlap and dst.overlap:
            busy[dst.name] += seconds
            continue
        for device in (src, dst):
            if not device.overlap:  # the rules have counted it as warm
                busy[device.name] += seconds - link.seconds(nbytes)
    return max(busy.values(), default=0.0)


def _passed_in_memory(problem: Problem, schedule: Schedule) -> list[tuple[Link, int]]:
    """The hand-overs in one memory: the link of each, and its bytes."""
    passed = []
    for hop in schedule.copies:
        link = problem.platform.link(hop.src, hop.dst)
        if link is not None and _shared(problem, link):
            nbytes = problem.graph.tensors[hop.tensor].bytes * len(hop.elements)
            passed.append((link, nbytes))
    return passed


def _depth(problem: Problem, schedule: Schedule) -> int:
    """The largest number of hand-overs on any way through the graph of an element."""
    places = {(e.task, element): e.device for e in schedule.executions for element in e.elements}
    depth: dict[tuple[str, int], int] = {}
    for task in problem.graph.topological_order:
        for element in range(problem.batch):
            here = places[task, element]
            depth[task, element] = max(
                (
                    depth[before, element] + (places[before, element] != here)
                    for before in problem.graph.predecessors[task]
                ),
                default=0,
            )
    return max(depth.values(), default=0)


def _handed_over(schedule: Schedule) -> int:
    """How many tensors, counted once an element, some device takes from another."""
    return sum(len(hop.elements) for hop in schedule.copies)


def _shared(problem: Problem, link: Link) -> bool:
    """Whether a link joins devices that compute in one memory."""
    ends = [problem.platform.device(name) for name in (link.src, link.dst)]
    return all(device.kind in HOST_KINDS and not device.private for device in ends)


def _elements(problem: Problem) -> Schedule | None:
    """Whole elements; None where no plan of them is valid."""
    if problem.batch > 1:
        with suppress(HeteroError):  # colors, or memory for the weights on each device
            return verified(problem, whole_elements.solve(problem, Options()))
    return None


def _interleaved(
    problem: Problem, schedule: Schedule, stages: Schedule | None, ends: Deadline | None
) -> Iterator[Schedule]:
    """Stages with one part more than devices, then with two; those that hand over less."""
    if stages is None or not _passed_in_memory(problem, schedule):
        return
    instance = instance_of(problem)
    start = placement_of(instance, stages)
    used = len(set(start or ()))
    for changes in (used, used + 1):
        if start is None or (ends is not None and ends.left() < _A_TABLE):
            return
        found = []
        for placement in interleaved_plans(instance, start, changes, schedule.seed or 0):
            with suppress(HeteroError):
                written = write_period(instance, placement)
                found.append(verified(problem, make_schedule(problem, "interleaved", *written)))
        best = min(found, key=lambda plan: effective_load(problem, plan), default=schedule)
        if _handed_over(best) < _handed_over(schedule):
            yield best


def _stages(problem: Problem, ends: Deadline | None) -> Schedule | None:
    """Contiguous stages of whole batches; None where none are found in time, or valid."""
    instance = instance_of(problem)
    if ends is not None and ends.left() < _A_TASK * len(instance):
        return None
    with suppress(HeteroError):
        plan = linear_plan(instance, deadline=math.inf if ends is None else ends.at)
        if plan is not None:
            executions, copies = write_period(instance, plan)
            return verified(problem, make_schedule(problem, "stages", executions, copies))
    return None
