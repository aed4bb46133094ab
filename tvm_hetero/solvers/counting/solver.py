"""Count-based dynamic programming: a line of tasks on many machines that are alike.

The graph is laid out as a line (`machine_counts.TaskLine`), the platform as types of machines
(`machine_counts.machines_of`), and `dp_table.CountTable` divides the one over the other. On a chain
without contention its value is that of the schedule; on other graphs it is a guide, and what counts
is what the placement is worth when it is carried out:

    latency      tasks in the order of the line, as early as memory and copies let them: each on
                 its device, or (branches may run side by side) where in its node it ends first
    throughput   the placement, after local search over single groups; the best placement first, and
                 none that is far behind

Types of machines are tried in every order if there are at most three, else fastest and slowest
first; so are tables with and without spilling. No bound is claimed here: `tvm_hetero.bounds` has
those of the problem.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter

from tvm_hetero.bounds.throughput.patterns import pattern_bound
from tvm_hetero.errors import HeteroError, InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.solvers.core.deadline import Deadline, time_is_up
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.counting.cpsat_counts import count_plan, kinds_of, realise
from tvm_hetero.solvers.counting.dp_table import CountTable
from tvm_hetero.solvers.lists.list_scheduler import ListScheduler
from tvm_hetero.solvers.lists.load_balancing import improve
from tvm_hetero.solvers.timing.device_loads import Loads, exact_value
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.views.instance import Instance, instance_of
from tvm_hetero.views.machine_counts import NodeType, TaskLine, machines_of

# The part of the time limit that tables may take, by the work that is counted.
_TABLES = 0.25
# Types of machines up to which every order is tried.
_MOST_TYPES = 3
# Devices above which throughput is not improved by moving single groups, and how much worse than
# the best answer a placement may be for local search to be tried on it.
_MOST_DEVICES = 64
_FAR = 1.1
# A value that is proven to this part of itself is not improved (`pattern_bound` is as exact).
_CLOSED = 5e-4


def solve(problem: Problem, options: Options) -> Schedule:
    """Place a line of tasks by counting devices; for latency and throughput.

    Raises
    ------
    SolverError
        If the objective is another one, no division of the line fits, or the time is up before one
        is found.
    """
    half = options.clock() + options.wall_limit / 2
    if problem.objective.kind not in ("latency", "throughput"):
        raise SolverError(f"count-dp minimises latency or throughput, not {problem.objective.kind}")
    instance = instance_of(problem)
    best: Schedule | None = None
    for value, placement in _in_turn(instance, options):
        if best is not None and value > _FAR * best.value:
            break
        try:
            found = _schedule(instance, placement, options)
        except InfeasibleError:
            continue
        except SolverError:
            if best is None:
                raise
            break
        if best is None or found.value < best.value:
            best = found
        if options.clock() > half:
            break
    if best is None:
        raise SolverError(
            "count-dp found no division of the tasks into segments that fits the devices; "
            "add memory"
        )
    return best


def _in_turn(instance: Instance, options: Options) -> Iterable[tuple[float, list[int]]]:
    """Placements in the order in which they are carried out, and what is known of their values.

    For throughput the value is exact before local search (s), and the best one is the first: a slow
    machine has no time for others. For latency nothing is known, 0.
    """
    found = _placements(instance, options)
    if instance.problem.objective.kind == "latency":
        return ((0.0, placement) for placement in found)
    valued = [(exact_value(instance, placement), placement) for placement in found]
    return sorted(valued, key=itemgetter(0))


def _placements(instance: Instance, options: Options) -> Iterator[list[int]]:
    """The best placement of every table, and the one of the plan that counts kinds of tasks."""
    line = TaskLine(instance)
    machines = machines_of(instance)
    steady = instance.problem.objective.kind == "throughput"
    seen: set[tuple[int, ...]] = set()
    work = 0.0
    for order in _orders(line, machines):
        for spills in (False,) if steady else (True, False):
            if seen and work > options.time_limit * _TABLES:
                continue
            try:
                table = CountTable(line, order, steady=steady, spills=spills, ends=options.ends)
            except SolverError:
                if seen:
                    return
                raise
            work += table.work
            best = table.best()
            if best is None:
                continue
            placement = line.placed(table.homes(best[1]))
            if tuple(placement) not in seen:
                seen.add(tuple(placement))
                yield placement
    if not instance.problem.objective.contiguous and not time_is_up(options.ends):
        kinds = kinds_of(line, machines)
        plan = count_plan(line, machines, kinds, options)
        if plan is not None:
            yield line.placed(realise(line, kinds, plan))


def _orders(line: TaskLine, machines: Sequence[NodeType]) -> list[tuple[NodeType, ...]]:
    """The orders of machine types that are tried, fastest first before all others."""

    def pace(machine: NodeType) -> float:
        """Seconds for what the fastest device of the type can run of the line."""
        rows = [line.seconds(machine.like(c)) for c in range(len(machine.counts))]
        return min(math.fsum(s for s in row.tolist() if s < math.inf) for row in rows)

    fastest = tuple(sorted(machines, key=pace))
    if len(machines) <= _MOST_TYPES:
        return list(itertools.permutations(fastest))
    return [fastest, fastest[::-1]]


def _schedule(instance: Instance, placement: Sequence[int], options: Options) -> Schedule:
    if instance.problem.objective.kind == "throughput":
        return _steady(instance, placement, options)
    found: list[Schedule] = []
    stuck: HeteroError | None = None
    for homes in ([(d,) for d in placement], _whole_nodes(instance, placement)):
        try:
            executions, copies = _carried_out(instance, homes, options.ends)
        except InfeasibleError as error:
            stuck = error
            continue
        except SolverError:
            if found:
                break
            raise
        found.append(
            make_schedule(instance.problem, "count-dp", executions, copies, seed=options.seed)
        )
    if not found and stuck is not None:
        raise stuck
    return min(found, key=lambda schedule: schedule.value)


def _whole_nodes(instance: Instance, placement: Sequence[int]) -> list[tuple[int, ...]]:
    """For each part all devices of its node: branches that a segment runs in a row may spread."""
    devices = instance.problem.platform.devices
    inside: dict[str, list[int]] = {}
    for d, device in enumerate(devices):
        inside.setdefault(device.node, []).append(d)
    rows = []
    for v, home in enumerate(placement):
        allowed = set(instance.devices[v])
        rows.append(tuple(d for d in inside[devices[home].node] if d in allowed))
    return rows


def _carried_out(
    instance: Instance, homes: Sequence[Sequence[int]], ends: Deadline | None = None
) -> tuple[list[Execution], list[Copy]]:
    """Executions and copies, where part v may run on any of `homes[v]`.

    Of hundreds of devices only the memory of those in `homes` is watched; where copies pass
    others whose memory can run out, the schedule is made again with these watched too.

    Raises
    ------
    InfeasibleError
        If some part fits on none of its devices.
    SolverError
        If the time is up.
    """
    watched = {d for row in homes for d in row}
    while True:
        scheduler = _CarryOut(instance, homes, watched, ends)
        found = scheduler.run(instance.order, by_space=False)
        stops = {b for _, (_, b), _, _ in scheduler.hops if instance.memory_binds[b]}
        if stops <= watched:
            return found
        watched |= stops


class _CarryOut(ListScheduler):
    """A list scheduler that may use, for each part, only certain devices."""

    def __init__(
        self,
        instance: Instance,
        homes: Sequence[Sequence[int]],
        watched: set[int],
        ends: Deadline | None = None,
    ) -> None:
        allowed = {d for row in homes for d in row}
        # Devices that are alike are not if they are to run different parts.
        super().__init__(instance, allowed, name="count-dp", apart=sorted(allowed), ends=ends)
        self.homes = homes
        self.watched = self.watched & watched

    def candidates(self, v: int) -> Sequence[int]:
        """The devices for `v`, one if its color has one already."""
        found = super().candidates(v)
        return [d for d in self.homes[v] if d in found]


def _steady(instance: Instance, placement: Sequence[int], options: Options) -> Schedule:
    """One period of a placement, the better of as it is and after local search.

    Raises
    ------
    InfeasibleError
        If memory, links or a pipeline's order forbid it.
    """
    best, value = list(placement), exact_value(instance, placement)
    few = len(set(placement)) <= _MOST_DEVICES
    if not instance.problem.objective.contiguous and few and not _closed(instance, value, options):
        loads = Loads(instance)
        for group in instance.groups:
            loads.move(group, placement[group[0]])
        if loads.overflow() == 0:
            improve(loads, options.ends)
            moved = loads.placement()
            other = exact_value(instance, moved)
            if other < value:
                best, value = moved, other
    if value == math.inf:
        raise InfeasibleError("count-dp: the segments fit memory or links no more with all copies")
    executions, copies = write_period(instance, best)
    return make_schedule(instance.problem, "count-dp", executions, copies, seed=options.seed)


def _closed(instance: Instance, value: float, options: Options) -> bool:
    """Whether whole tasks in memories allow hardly less (s): local search gains nothing then."""
    late = partial(time_is_up, options.ends)
    return value < math.inf and value * (1 - _CLOSED) <= pattern_bound(instance, late)
