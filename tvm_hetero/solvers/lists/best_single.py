"""The best device alone: what every partition has to beat.

Everything runs on one device, one task after the other, so there are no copies and no waiting.
For a batch each task runs either once for all elements or once for each of them, whichever its
cost table says is quicker. Where that overflows the memory, the elements go through the whole
graph one after the other, which holds fewer tensors at a time. The order is topological; of two
orders (breadth: the graph's own, depth: what frees most memory) the first that fits is taken.

Tasks that take no time anywhere are no work: a model's inputs and outputs, which the host holds.
A device that can run everything but some of these counts as alone too: they stay where they can,
and what passes between is copied (`place_on_device`). Otherwise no accelerator would ever be alone,
and every plan would be compared with the host.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.memoize import cached_per_problem
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.core.deadline import Deadline, time_is_up
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.solvers.lists.depth_order import depth_order
from tvm_hetero.solvers.lists.single_bounds import least_values, takes_no_time
from tvm_hetero.util.units import format_bytes, format_seconds
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.symmetry import find_symmetry

Step = tuple[str, tuple[int, ...]]
# Sums of the same numbers in another order differ by less, as a share.
_ROUNDING = 1e-9


def solve(problem: Problem, options: Options) -> Schedule:
    """The best single device's schedule.

    Raises
    ------
    InfeasibleError
        If no device can run all tasks, or none of those that can has the memory or keeps the
        latency limit; says for each device what is in the way.
    """
    found = best_single(problem, options)
    if found is not None:
        return found
    raise InfeasibleError(f"no device can run everything alone ({_obstacles(problem)})")


class FoundSingle(NamedTuple):
    """The best schedule on a device alone that is known, if any.

    Attributes
    ----------
    schedule : it; None if none was found.
    is_certain : whether none is better; not so where the time was up before that was clear.
    """

    schedule: Schedule | None
    is_certain: bool


def best_single(problem: Problem, options: Options) -> Schedule | None:
    """The schedule of the best device alone; None if no device can run everything.

    Where the time is up it may be another device's (`find_single` tells).
    """
    return find_single(problem, options).schedule


def find_single(problem: Problem, options: Options) -> FoundSingle:
    """The best device alone, those that may take least first; when the time is up, only one."""
    tried, ends = _tried(problem), options.ends
    best: Schedule | None = None
    first, is_certain = 0, True
    for least, place, name in _candidates(problem):
        if best is not None and best.value < least * (1 - _ROUNDING):
            break  # nor does anyone after it take less
        late = name not in tried and time_is_up(ends)
        if best is not None and late:
            # Of 192 devices no two of which are alike, all take longer than a schedule.
            is_certain &= best.value <= least * (1 + _ROUNDING)
            break
        try:
            found = tried[name] if name in tried else _on(problem, name, ends)
        except SolverError:  # no time for this one; whoever has more may ask again
            is_certain = False
            continue
        tried[name] = found
        if found is not None and (best is None or (found.value, place) < (best.value, first)):
            best, first = found, place
    return FoundSingle(None if best is None else replace(best, seed=options.seed), is_certain)


def _candidates(problem: Problem) -> list[tuple[float, int, str]]:
    """Devices that may do: what they take at least, position and name, by rising values.

    Devices that can change places have equal schedules: one of each type will do.
    """
    types = sorted(set(find_symmetry(problem).types()))
    names = [problem.platform.names[d] for d in types]
    least = least_values(problem, names)
    return sorted(row for row in zip(least, types, names, strict=True) if row[0] < math.inf)


@cached_per_problem
def _tried(problem: Problem) -> dict[str, Schedule | None]:
    """What is known of the devices of a problem, by name."""
    return {}


def _on(problem: Problem, name: str, ends: Deadline | None) -> Schedule | None:
    """The schedule of a device alone, if it keeps all limits."""
    found = alone(problem, name)
    executions, copies = (found, ()) if found is not None else place_on_device(problem, name, ends)
    if not executions or not within_limit(problem, executions):
        return None
    return make_schedule(problem, "single", executions, copies)


def alone(problem: Problem, device: str) -> tuple[Execution, ...] | None:
    """All tasks on `device`, or None if it cannot run one of them or lacks the memory."""
    if any(device not in problem.costs[task.id] for task in problem.tasks):
        return None
    limit = problem.platform.device(device).memory
    for steps in _ways(problem, device, everything=limit is None):
        if limit is None or _peak(problem, steps) <= limit:
            return _timed(problem, device, steps)
    return None


def place_on_device(
    problem: Problem, device: str, ends: Deadline | None = None
) -> tuple[tuple[Execution, ...], tuple[Copy, ...]]:
    """All work on `device`, and what takes no time and cannot be there elsewhere.

    Nothing if that is not possible, for want of a path or of memory, or if there is no work.

    Raises
    ------
    SolverError
        If the time is up.
    """
    from tvm_hetero.solvers.lists.list_scheduler import ListScheduler

    steady = problem.objective.kind == "throughput"
    if time_is_up(ends) and not steady:  # the scheduler would say so, once all is prepared
        raise SolverError("single: the time is up; raise the time limit")
    costs = {task: _kept(row, device) for task, row in problem.costs.items()}
    if not all(costs.values()) or all(device not in row for row in costs.values()):
        return (), ()
    there = (task.weight_bytes for task in problem.tasks if device in costs[task.id])
    if sum(there) > (problem.platform.device(device).memory or math.inf):
        return (), ()
    try:
        instance = Instance(replace(problem, costs=costs))
        if steady:
            return _attended_period(problem, instance, device)
        # One device does it all: not worth finding out which of the others are alike.
        everything = range(len(instance.names))
        scheduler = ListScheduler(instance, set(everything), apart=everything, ends=ends)
        executions, copies = scheduler.run(instance.order, by_space=False)
    except SolverError:
        raise
    except HeteroError:
        return (), ()
    return tuple(executions), tuple(copies)


def _attended_period(
    problem: Problem, instance: Instance, device: str
) -> tuple[tuple[Execution, ...], tuple[Copy, ...]]:
    """The same in a steady state. What goes to the host and back may be no pipeline of stages."""
    from tvm_hetero.solvers.timing.device_loads import Loads, is_pipeline
    from tvm_hetero.solvers.timing.steady_period import write_period

    home = instance.names.index(device)
    loads = Loads(instance)
    for group in instance.groups:
        allowed = instance.devices[group[0]]
        loads.move(group, home if home in allowed else allowed[0])
        if loads.overflow() or not loads.reachable(group):
            return (), ()
    if problem.objective.contiguous and not is_pipeline(Instance(problem), loads.placement()):
        return (), ()
    return write_period(instance, loads.placement())


def _kept(row: Mapping[str, Cost], device: str) -> dict[str, Cost]:
    """The task's cost on `device`; those elsewhere if it cannot be there and takes no time."""
    if device in row:
        return {device: row[device]}
    return dict(row) if all(map(takes_no_time, row.values())) else {}


def main_device(schedule: Schedule) -> str:
    """The device of a single device's schedule: the one that works."""
    busy: dict[str, float] = {}
    for e in schedule.executions:
        busy[e.device] = busy.get(e.device, 0.0) + e.end - e.start
    return max(busy, key=lambda name: busy[name])


def _ways(problem: Problem, device: str, *, everything: bool) -> list[list[Step]]:
    """Orders to try, the quickest first."""
    order = problem.graph.topological_order
    quick = [step for task in order for step in _divided(problem, task, device)]
    if everything or problem.objective.kind == "throughput":
        return [quick]
    deep = depth_order(problem)
    frugal = [step for task in deep for step in _divided(problem, task, device)]
    by_element: list[Step] = [(task, (n,)) for n in range(problem.batch) for task in deep]
    return [quick, frugal, by_element]


def _divided(problem: Problem, task: str, device: str) -> list[Step]:
    """A batch of a task at once, or element by element if that is quicker."""
    n = problem.batch
    if problem.seconds(task, device, n) <= n * problem.seconds(task, device, 1):
        return [(task, tuple(range(n)))]
    return [(task, (i,)) for i in range(n)]


def _timed(problem: Problem, device: str, steps: Sequence[Step]) -> tuple[Execution, ...]:
    executions = []
    now = 0.0
    for task, elements in steps:
        end = now + problem.seconds(task, device, len(elements))
        executions.append(Execution(task, device, elements, now, end))
        now = end
    return tuple(executions)


def _peak(problem: Problem, steps: Sequence[Step]) -> int:
    """Most bytes alive at once when the steps run one after the other.

    What one execution makes is held whole until the readers of all its elements are through.
    """
    graph = problem.graph
    steady = problem.objective.kind == "throughput"
    now = most = sum(task.weight_bytes for task in problem.tasks)
    made_with: dict[tuple[str, int], tuple[int, ...]] = {}
    reads_left: dict[tuple[str, tuple[int, ...]], int] = {}
    for task, elements in steps:
        made = graph.unread_bytes(task) + sum(t.bytes for t in graph.outputs[task])
        now += made * len(elements)
        most = max(most, now)
        made_with.update({(task, n): elements for n in elements})
        for tensor in graph.outputs[task]:
            reads_left[tensor.name, elements] = len(tensor.readers) * len(elements)
        for tensor in () if steady else graph.inputs[task]:
            for n in elements:
                together = made_with[tensor.src, n]
                reads_left[tensor.name, together] -= 1
                if reads_left[tensor.name, together] == 0:
                    now -= tensor.bytes * len(together)
    return most


def _obstacles(problem: Problem) -> str:
    """Why no device can; devices that can change places in one."""
    alike = Counter(find_symmetry(problem).types())
    reasons = []
    for d, count in sorted(alike.items()):
        name = problem.platform.names[d]
        like = f" and {count - 1} like it" if count > 1 else ""
        reasons.append(f"{name}{like}: {_obstacle(problem, name)}")
    return "; ".join(reasons)


def _obstacle(problem: Problem, device: str) -> str:
    """Why a device cannot do everything alone."""
    lacking = [task.id for task in problem.tasks if device not in problem.costs[task.id]]
    if lacking:
        shown = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
        return f"cannot run {len(lacking)} of {len(problem.tasks)} tasks ({shown})"
    executions = alone(problem, device)
    if executions is None:
        steps = _ways(problem, device, everything=False)
        limit = problem.platform.device(device).memory or 0
        over = min(_peak(problem, way) for way in steps) - limit
        return f"lacks {format_bytes(over)} of memory"
    limit_s = problem.objective.latency_limit or math.inf
    return (
        f"takes {format_seconds(executions[-1].end)}, over the latency limit of "
        f"{format_seconds(limit_s)}"
    )
