"""The exact optimum of tiny problems by going through everything. For tests only.

Exact for every problem that `check_schedule` can judge: latency, throughput, energy, cost;
batches divided in any way over executions; colors, copies over several hops, devices without copy
engines, exclusive links, memory. It shares nothing with the checker, the simulator or a solver.
How large: about 6 tasks on 3 devices for one element, 3 tasks on 2 devices for two elements, 4
tasks on 2 devices where memory binds (without a binding memory the times are never waited for).

For every placement (division of the batch, device of each part) the activities, that is
executions and hops, are put on the time axis in the order of their starts (depth first, cut by
bounds). All four objectives never get worse when a schedule is shifted to the left, so it is
enough to look at schedules in which no activity can start earlier with the rest kept:

- without memory limits each activity then starts when its inputs are whole and all that it
  occupies is free;
- with memory limits it may also wait for memory, which becomes free when some activity ends: each
  activity starts at 0 or at the end of some activity before it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tvm_hetero.errors import PlatformError
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule

Part = tuple[str, str, tuple[int, ...]]


@dataclass
class Activity:
    """An execution or a hop: how long, after what (positions), keeping what busy."""

    what: Part | tuple[str, tuple[int, ...], str, str]
    seconds: float
    after: list[int]
    occupies: list[object]


@dataclass
class Buffer:
    """Memory that is taken when the first of `births` starts, until all of `deaths` end.

    There are two births only where a detour is faster than a direct link: then a device can get
    a tensor over its link, and again as a stop on the way to another device.
    """

    memory: str
    bytes: int
    births: list[int]
    deaths: list[int] | None  # None: at the end of everything

    def ends_with(self, activity: int) -> None:
        assert self.deaths is not None
        self.deaths.append(activity)


@dataclass
class Plan:
    """All that follows from a placement, without times."""

    activities: list[Activity] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)


def brute_force(problem: Problem, below: float = math.inf) -> float:
    """The smallest value of the objective; infinite if there is no valid schedule `below`."""
    schedule = optimal_schedule(problem, below)
    return math.inf if schedule is None else schedule.value


def optimal_schedule(problem: Problem, below: float = math.inf) -> Schedule | None:
    """A best schedule, or None if there is no valid one with a value below `below`."""
    best = below
    found: tuple[Plan, list[float]] | None = None
    rest = _least_work(problem)

    def hopeless(parts: list[Part], depth: int) -> bool:
        _spend(1)
        return _least_value(problem, parts, rest[depth]) >= best

    for parts in _placements(problem, hopeless):
        if problem.objective.contiguous and not _is_pipeline(problem, parts):
            continue
        plan = _plan(problem, parts)
        if plan is None or not _weights_fit(problem, plan):
            continue
        # Not even without waiting is this placement better.
        if _value(problem, plan, _least_makespan(plan)) >= best:
            continue
        if problem.objective.kind == "throughput":
            starts = _one_period(plan) if _all_buffers_fit(problem, plan) else None
        else:
            cutoff = best if problem.objective.kind == "latency" else math.inf
            starts = _Search(problem, plan, cutoff).run()
        if starts is None:
            continue
        ends = [s + a.seconds for s, a in zip(starts, plan.activities, strict=True)]
        limit = problem.objective.latency_limit
        value = _value(problem, plan, max(ends))
        if value < best and (limit is None or max(ends) <= limit * (1 + 1e-9)):
            best, found = value, (plan, starts)
    return None if found is None else _schedule(problem, *found, best)


# --- placements ------------------------------------------------------------------------------


def _partitions(elements: Sequence[int]) -> Iterator[list[tuple[int, ...]]]:
    """All ways to divide `elements` into parts."""
    if not elements:
        yield []
        return
    first, rest = elements[0], elements[1:]
    for others in itertools.chain.from_iterable(
        itertools.combinations(rest, k) for k in range(len(rest) + 1)
    ):
        left = [e for e in rest if e not in others]
        for parts in _partitions(left):
            yield [(first, *others), *parts]


def _placements(
    problem: Problem, hopeless: Callable[[list[Part], int], bool]
) -> Iterator[list[Part]]:
    """All divisions and places that colors allow, but for those that begin hopelessly.

    What an element is called does not matter, so the first task's parts are taken in one way of
    each sizes: the elements in order, the smallest part first.
    """
    order = problem.graph.topological_order

    def choices(depth: int) -> Iterator[list[Part]]:
        task = order[depth]
        able = problem.devices_for(task)
        for parts in _partitions(range(problem.batch)):
            in_order = list(itertools.chain.from_iterable(parts)) == list(range(problem.batch))
            rising = all(len(a) <= len(b) for a, b in itertools.pairwise(parts))
            if depth == 0 and not (in_order and rising):
                continue
            for devices in itertools.product(able, repeat=len(parts)):
                yield [(task, device, part) for device, part in zip(devices, parts, strict=True)]

    def go_on(depth: int, placed: list[Part]) -> Iterator[list[Part]]:
        if depth == len(order):
            yield placed
            return
        for choice in choices(depth):
            parts = placed + choice
            if _colors_kept(problem, parts) and not hopeless(parts, depth + 1):
                yield from go_on(depth + 1, parts)

    yield from go_on(0, [])


def _colors_kept(problem: Problem, parts: list[Part]) -> bool:
    homes: dict[str, set[str]] = {}
    for task, device, _ in parts:
        color = problem.graph.task(task).color
        if color is not None:
            homes.setdefault(color, set()).add(device)
    return all(len(devices) == 1 for devices in homes.values())


def _least_work(problem: Problem) -> list[float]:
    """The least work, s, of the tasks from each place in the topological order on."""
    sizes = range(1, problem.batch + 1)
    rest = [0.0]
    for task in reversed(problem.graph.topological_order):
        able = problem.devices_for(task)
        share = min(problem.seconds(task, device, n) / n for device in able for n in sizes)
        rest.append(rest[-1] + share * problem.batch)
    return rest[::-1]


def _least_value(problem: Problem, parts: list[Part], rest: float) -> float:
    """The least value of what has these executions and `rest` seconds of others."""
    busy: dict[str, float] = {}
    ends: dict[tuple[str, int], float] = {}
    above: dict[str, float] = {}
    for task, device, elements in parts:
        seconds = problem.seconds(task, device, len(elements))
        busy[device] = busy.get(device, 0.0) + seconds
        figures = problem.platform.device(device)
        joules = problem.costs[task][device].joules(len(elements), figures.watts)
        more = max(0.0, joules - figures.idle_watts * seconds)
        above[device] = above.get(device, 0.0) + more
        makers = problem.graph.predecessors[task]
        start = max((ends[maker, e] for maker in makers for e in elements), default=0.0)
        ends.update(dict.fromkeys([(task, e) for e in elements], start + seconds))
    kind, used = problem.objective.kind, len(problem.platform.devices)
    longest = max(*busy.values(), (sum(busy.values()) + rest) / used)
    if kind != "throughput":
        longest = max(longest, *ends.values())
    if kind in ("latency", "throughput"):
        return longest * (1 - 1e-12)
    if any(_cores(problem, name) for name in problem.platform.names):
        return 0.0
    devices = [(problem.platform.device(name), own) for name, own in busy.items()]
    if kind == "cost":
        return sum((device.price or 0.0) * longest / 3600 for device, _ in devices) * (1 - 1e-12)
    # A device may spend less while it is busy than while it is idle.
    spent = sum(
        min(device.watts or 0.0, device.idle_watts) * longest + above[device.name]
        for device, _ in devices
    )
    return spent * (1 - 1e-12)


def _is_pipeline(problem: Problem, parts: list[Part]) -> bool:
    """Whether the devices can be put in an order in which nothing is read from a later one."""
    arrows = {
        (maker, reader)
        for task, maker, made in parts
        for other, reader, wanted in parts
        if maker != reader
        and not {task, other} & _ends(problem)
        and task in problem.graph.predecessors[other]
        and set(made) & set(wanted)
    }
    devices = sorted({device for _, device, _ in parts})
    return any(
        all(order.index(a) < order.index(b) for a, b in arrows)
        for order in itertools.permutations(devices)
    )


def _ends(problem: Problem) -> set[str]:
    """What comes first or last, takes no time and has no color: in no stage."""
    graph = problem.graph
    costless = {
        task.id
        for task in problem.tasks
        if task.color is None
        and not any(cost.seconds(n) for cost in problem.costs[task.id].values() for n in (1, 64))
    }
    made = {edge.src for edge in graph.edges}
    read = {edge.dst for edge in graph.edges}
    return {task for task in costless if task not in made or task not in read}


def _cores(problem: Problem, name: str) -> list[tuple[str, str, int]]:
    """The cores of a device that shares any of them."""
    platform = problem.platform
    device = platform.device(name)
    others = (d for d in platform.devices if d.node == device.node and d is not device)
    if platform.shared_cores or not any(set(d.cores) & set(device.cores) for d in others):
        return []
    return [("core", device.node, core) for core in device.cores]


def _memory(problem: Problem, name: str) -> str:
    """The first device of the same memory, which it is known by."""
    memory = _shared_memory(problem, name)
    if memory is None:
        return name
    return next(d for d in problem.platform.names if _shared_memory(problem, d) == memory)


def _shared_memory(problem: Problem, name: str) -> tuple[str, ...] | None:
    """The memory with a limit that CPU teams of a node see, or the levels of a device; or None."""
    platform = problem.platform
    device = platform.device(name)
    if device.memory is None or not _cores(problem, name):
        return None
    levels = {d.name for d in platform.devices if d.level_of == device.level_of is not None}
    beside = {d.name for d in platform.devices if d.node == device.node} - {name}
    rivals = {d for d in beside if set(platform.device(d).cores) & set(device.cores)}
    if rivals - levels and device.kind in ("llvm", "c", "unknown") and not device.private:
        return (device.node,)
    return (device.node, str(device.level_of)) if rivals & levels else None


def _plan(problem: Problem, parts: list[Part]) -> Plan | None:
    """Activities and buffers of a placement; None if a tensor cannot reach its reader."""
    graph, platform = problem.graph, problem.platform
    memory = {name: _memory(problem, name) for name in platform.names}
    plan = Plan()
    for task, device, elements in parts:
        seconds = problem.seconds(task, device, len(elements))
        own: list[object] = [device, *_cores(problem, device)]
        plan.activities.append(Activity((task, device, elements), seconds, [], own))
    for place, task in {(memory[device], task) for task, device, _ in parts}:
        plan.weights[place] = plan.weights.get(place, 0) + graph.task(task).weight_bytes
    for i, (task, device, elements) in enumerate(parts):
        unread = graph.task(task).output_bytes - sum(t.bytes for t in graph.outputs[task])
        plan.buffers.append(Buffer(memory[device], max(0, unread) * len(elements), [i], None))
        for tensor in graph.outputs[task]:
            nbytes = tensor.bytes * len(elements)
            here = {memory[device]: Buffer(memory[device], nbytes, [i], [i])}
            hops: dict[tuple[str, str], int] = {}
            for j, (reader, place, wanted) in enumerate(parts):
                if reader not in tensor.readers or not set(wanted) & set(elements):
                    continue
                last = i
                try:
                    path = platform.path(device, place, nbytes)
                except PlatformError:
                    return None
                for link in path:
                    key = (link.src, link.dst)
                    if key not in hops:
                        hops[key] = len(plan.activities)
                        blocked = [name for name in key if not platform.device(name).overlap]
                        taken = {core for name in blocked for core in _cores(problem, name)}
                        busy: list[object] = [*blocked, *sorted(taken)]
                        if link.exclusive:
                            busy.append(key)
                        seconds = link.latency + nbytes / link.bandwidth
                        hop = Activity((tensor.name, elements, *key), seconds, [last], busy)
                        plan.activities.append(hop)
                        to = memory[link.dst]
                        there = here.setdefault(to, Buffer(to, nbytes, [], []))
                        there.births.append(hops[key])
                        there.ends_with(hops[key])
                    last = hops[key]
                    here[memory[link.src]].ends_with(last)
                plan.activities[j].after.append(last)
                here[memory[place]].ends_with(j)
            plan.buffers.extend(here.values())
    return plan


# --- values ----------------------------------------------------------------------------------


def _loads(plan: Plan) -> dict[object, float]:
    loads: dict[object, float] = {}
    for activity in plan.activities:
        for resource in activity.occupies:
            loads[resource] = loads.get(resource, 0.0) + activity.seconds
    return loads


def _least_makespan(plan: Plan) -> float:
    """The longest chain, and the largest load: no order ends earlier."""
    return max(*_tails(plan), 0.0, *_loads(plan).values())


def _tails(plan: Plan) -> list[float]:
    """Longest chain that begins with each activity."""
    readers: list[list[int]] = [[] for _ in plan.activities]
    for i, activity in enumerate(plan.activities):
        for j in activity.after:
            readers[j].append(i)
    tails: dict[int, float] = {}

    def tail(i: int) -> float:
        if i not in tails:
            rest = max((tail(j) for j in readers[i]), default=0.0)
            tails[i] = plan.activities[i].seconds + rest
        return tails[i]

    return [tail(i) for i in range(len(plan.activities))]


def _value(problem: Problem, plan: Plan, makespan: float) -> float:
    kind = problem.objective.kind
    loads = _loads(plan)
    if kind == "latency":
        return makespan
    if kind == "throughput":
        return max(loads.values())
    total = 0.0
    used = {a.what[1] for a in plan.activities if len(a.what) == 3}
    used |= {end for a in plan.activities if len(a.what) == 4 for end in a.what[2:]}
    lasting: dict[object, float] = {}
    for name in sorted(used, key=str):
        device = problem.platform.device(str(name))
        figure = device.watts if kind == "energy" else device.price
        assert figure is not None
        if kind == "energy":
            total += figure * loads.get(name, 0.0)
            total += sum(
                _own_energy(problem, a.what, a.seconds) - figure * a.seconds
                for a in plan.activities
                if len(a.what) == 3 and a.what[1] == name
                if problem.costs[a.what[0]][str(name)].energy
            )
        # What lasts (idling, the price) is paid once a core, at the dearest share.
        cores: Sequence[object] = _cores(problem, str(name)) or [name]
        rate = device.idle_watts if kind == "energy" else figure / 3600
        for core in cores:
            lasting[core] = max(lasting.get(core, 0.0), rate / len(cores))
    for core, rate in lasting.items():
        idle = max(0.0, makespan - loads.get(core, 0.0))
        total += rate * (idle if kind == "energy" else makespan)
    return total


def _own_energy(problem: Problem, part: Part, seconds: float) -> float:
    """What a task says that it draws: a line through the figures beside it, from 0 at the left."""
    task, device, elements = part
    n, points = len(elements), [(0, 0.0), *problem.costs[task][device].energy]
    for (n0, e0), (n1, e1) in itertools.pairwise(points):
        if n <= n1:
            return e0 + (e1 - e0) * (n - n0) / (n1 - n0)
    (n0, e0), (n1, e1) = points[-2:]
    return e1 * n / n1 if e1 < e0 else e1 + (e1 - e0) * (n - n1) / (n1 - n0)


# --- memory ----------------------------------------------------------------------------------


def _room(problem: Problem, plan: Plan) -> dict[str, int]:
    """Bytes beside the weights, of the memories with a capacity."""
    return {
        device.name: device.memory - plan.weights.get(device.name, 0)
        for device in problem.platform.devices
        if device.memory is not None and _memory(problem, device.name) == device.name
    }


def _weights_fit(problem: Problem, plan: Plan) -> bool:
    return all(room >= 0 for room in _room(problem, plan).values())


def _all_buffers_fit(problem: Problem, plan: Plan) -> bool:
    return all(
        sum(b.bytes for b in plan.buffers if b.memory == name) <= room
        for name, room in _room(problem, plan).items()
    )


# --- times -----------------------------------------------------------------------------------


def _one_period(plan: Plan) -> list[float]:
    """Starts within a period: executions back to back, those on most cores first; hops at 0."""
    clock: dict[object, float] = {}
    starts = [0.0] * len(plan.activities)
    for i in sorted(range(len(starts)), key=lambda i: -len(plan.activities[i].occupies)):
        activity = plan.activities[i]
        if len(activity.what) == 3:
            starts[i] = max(clock.get(resource, 0.0) for resource in activity.occupies)
            clock.update(dict.fromkeys(activity.occupies, starts[i] + activity.seconds))
    return starts


class Exhausted(Exception):
    """The steps that `limited` allows are used up."""


_left = math.inf


@contextmanager
def limited(steps: float) -> Iterator[None]:
    """Within this, `Exhausted` is raised after so many steps: some 100,000 a second."""
    global _left
    _left = steps
    try:
        yield
    finally:
        _left = math.inf


def _spend(steps: int) -> None:
    global _left
    _left -= steps
    if _left < 0:
        raise Exhausted


class _Search:
    """Depth first over the activities in the order of their starts."""

    def __init__(self, problem: Problem, plan: Plan, cutoff: float) -> None:
        self.plan = plan
        self.room = {} if _all_buffers_fit(problem, plan) else _room(problem, plan)
        self.tails = _tails(plan)
        self.best = cutoff
        self.best_starts: list[float] | None = None
        self.starts: dict[int, float] = {}
        self.ends: dict[int, float] = {}

    def run(self) -> list[float] | None:
        """The starts of a schedule that ends before the cutoff, as early as can be; or None."""
        self.visit(0.0, -1, {})
        return self.best_starts

    def visit(self, now: float, last: int, free: dict[object, float]) -> None:
        """Go on behind activity `last`, which starts `now`."""
        _spend(1)
        left = [i for i in range(len(self.plan.activities)) if i not in self.starts]
        if not left:
            end = max(self.ends.values())
            if end < self.best and self.fits(now, end):
                self.best = end
                self.best_starts = [self.starts[i] for i in range(len(self.starts))]
            return
        if self.hopeless(now, free, left):
            return
        for i in left:
            activity = self.plan.activities[i]
            if any(j not in self.ends for j in activity.after):
                continue
            earliest = max(
                [0.0]
                + [self.ends[j] for j in activity.after]
                + [free.get(resource, 0.0) for resource in activity.occupies]
            )
            # Those that start at once come in one order, behind those that take no time.
            ordered = i > last or self.ends[last] == now
            for start in self.candidates(earliest, now):
                if start == now and not ordered:
                    continue
                # All that starts by `now` is placed, so the memory of [now, start) is known.
                if start > now and not self.fits(now, math.inf):
                    break
                self.starts[i], self.ends[i] = start, start + activity.seconds
                later = free | dict.fromkeys(activity.occupies, self.ends[i])
                self.visit(start, i, later)
                del self.starts[i], self.ends[i]

    def candidates(self, earliest: float, now: float) -> list[float]:
        if not self.room:
            # An earlier start belongs to another order of the same starts.
            return [earliest] if earliest >= now else []
        moments = {0.0, *self.ends.values()}
        return sorted(t for t in moments if t >= max(earliest, now))

    def hopeless(self, now: float, free: dict[object, float], left: list[int]) -> bool:
        """No way to end before the best from here."""
        if max((now + self.tails[i] for i in left), default=0.0) >= self.best:
            return True
        work: dict[object, float] = {}
        for i in left:
            for resource in self.plan.activities[i].occupies:
                work[resource] = work.get(resource, 0.0) + self.plan.activities[i].seconds
        return any(
            max(now, free.get(resource, 0.0)) + seconds >= self.best
            for resource, seconds in work.items()
        )

    def fits(self, moment: float, makespan: float) -> bool:
        """Whether what is alive at `moment` fits. What is not placed yet ends later."""
        for memory, room in self.room.items():
            alive = sum(
                buffer.bytes
                for buffer in self.plan.buffers
                if buffer.memory == memory
                and min(self.starts.get(i, math.inf) for i in buffer.births) <= moment
                and self.death(buffer, makespan) > moment
            )
            if alive > room:
                return False
        return True

    def death(self, buffer: Buffer, makespan: float) -> float:
        if buffer.deaths is None:
            return makespan
        return max(self.ends.get(i, math.inf) for i in buffer.deaths)


def _schedule(problem: Problem, plan: Plan, starts: list[float], value: float) -> Schedule:
    executions, copies = [], []
    for activity, start in zip(plan.activities, starts, strict=True):
        times = (start, start + activity.seconds)
        if len(activity.what) == 3:
            executions.append(Execution(*activity.what, *times))
        else:
            copies.append(Copy(*activity.what, *times))
    return Schedule(
        problem=problem.digest,
        solver="brute-force",
        kind=problem.objective.kind,
        executions=tuple(executions),
        copies=tuple(copies),
        value=value,
        lower_bound=value,
        status="optimal",
    )
