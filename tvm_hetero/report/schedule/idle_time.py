"""Who waits for whom in a schedule of a batch: the critical path, and idle time by cause.

Every activity (an execution or a hop) waits for others: those that bring what it reads, and those
before it on what it occupies. The one among them that ends last is what it *waited for*.

Critical path   from the last execution back, each step to what it waited for; the steps cover
                the makespan but for what was held back without need (or for memory)
Idle by cause   a gap on a device ends with an activity; the gap is split by what that one waited
                for: a copy under way, a task on another device, the other end of its link, memory
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import Resource, list_engaged, list_occupied
from tvm_hetero.problem.schedule import Copy, Execution, Schedule

Activity = Execution | Copy

DATA, COPY, BUSY, END, HELD, DONE = (
    "another device computes its inputs",
    "a copy is under way",
    "the device is busy",
    "the other end of a link is busy",
    "held back (memory)",
    "nothing left to do",
)
CAUSES = (DATA, COPY, END, HELD, DONE)


@dataclass(frozen=True)
class IdleStep:
    """One activity of the critical path, and why it did not start earlier."""

    name: str
    lane: str
    start: float
    end: float
    copy: bool
    waited: str


@dataclass(frozen=True)
class Idle:
    """One device: seconds of computing, of copying (where it lacks an engine), of each cause."""

    device: str
    computes: float
    copies: float
    causes: dict[str, float]


class Waits:
    """A valid schedule, with whatever its activities wait for."""

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem = problem
        self.end = max(e.end for e in schedule.executions)
        self.maker = {(e.task, n): e for e in schedule.executions for n in e.elements}
        self.arrivals: dict[tuple[str, tuple[int, ...], str], Copy] = {}
        for copy in schedule.copies:
            self.arrivals.setdefault((copy.tensor, copy.elements, copy.dst), copy)
        self.users: dict[Resource, list[Activity]] = {}
        everything: list[Activity] = [*schedule.executions, *schedule.copies]
        for activity in sorted(everything, key=lambda a: (a.start, a.end)):
            for resource in self.occupies(activity):
                self.users.setdefault(resource, []).append(activity)
        self.last: dict[tuple[int, Resource], Activity] = {}
        for resource, row in self.users.items():
            for before, after in pairwise(row):
                self.last[id(after), resource] = before

    def occupies(self, activity: Activity) -> list[Resource]:
        """What the activity keeps busy."""
        if isinstance(activity, Execution):
            return list_engaged(self.problem.platform, activity.device)
        link = self.problem.platform.link(activity.src, activity.dst)
        return [] if link is None else list_occupied(self.problem, link)

    def sources(self, activity: Activity) -> list[Activity]:
        """What brings the inputs of an execution, or the tensor to the near end of a hop."""
        graph = self.problem.graph
        if isinstance(activity, Copy):
            maker = self.maker[graph.tensors[activity.tensor].src, activity.elements[0]]
            if maker.device == activity.src:
                return [maker]
            hop = self.arrivals.get((activity.tensor, activity.elements, activity.src))
            return [hop or maker]
        found: dict[int, Activity] = {}
        for tensor in graph.inputs[activity.task]:
            for element in activity.elements:
                maker = self.maker[tensor.src, element]
                source: Activity = maker
                if maker.device != activity.device:
                    key = (tensor.name, maker.elements, activity.device)
                    source = self.arrivals.get(key, maker)
                found[id(source)] = source
        return list(found.values())

    def waited_for(self, activity: Activity) -> tuple[Activity | None, str]:
        """The latest of all that an activity has to wait for, and what sort of wait it is."""
        candidates: list[tuple[float, int, Activity, str]] = []
        for source in self.sources(activity):
            kind = COPY if isinstance(source, Copy) else DATA
            candidates.append((source.end, 1, source, kind))
        for resource in self.occupies(activity):
            before = self.last.get((id(activity), resource))
            if before is not None:
                candidates.append((before.end, 0, before, BUSY))
        if not candidates:
            return None, ""
        _, _, latest, kind = max(candidates, key=lambda c: (c[0], c[1]))
        slack = 1e-9 * self.end
        return latest, HELD if activity.start > latest.end + slack else kind

    def critical_path(self) -> tuple[IdleStep, ...]:
        """From the last execution back to one that waited for nothing."""
        executions = {id(e): e for e in self.maker.values()}.values()
        now: Activity | None = max(executions, key=lambda e: (e.end, e.start))
        steps: list[IdleStep] = []
        seen: set[int] = set()
        while now is not None and id(now) not in seen:
            seen.add(id(now))
            before, kind = self.waited_for(now)
            steps.append(step_of(now, kind))
            now = before
        return tuple(reversed(steps))

    def idle(self, device: str) -> Idle:
        """How a device spends the makespan."""
        causes = dict.fromkeys(CAUSES, 0.0)
        now = computes = copies = 0.0
        for activity in self.users.get(device, []):
            if activity.start > now:
                for cause, seconds in self._gap(activity, device, now):
                    causes[cause] += seconds
            if isinstance(activity, Execution):
                computes += activity.end - activity.start
            else:
                copies += activity.end - activity.start
            now = max(now, activity.end)
        causes[DONE] += max(0.0, self.end - now)
        return Idle(device, computes, copies, causes)

    def _gap(self, activity: Activity, device: str, since: float) -> list[tuple[str, float]]:
        """The gap on a device before an activity, divided by cause, from its end back."""
        parts: list[tuple[str, float]] = []
        latest, kind = self.waited_for(activity)
        until = activity.start
        if latest is not None and latest.end < until and kind == HELD:
            parts.append((HELD, until - max(since, latest.end)))
            until = max(since, latest.end)
        while isinstance(latest, Copy) and until > since:
            parts.append((COPY, until - max(since, latest.start)))
            until = max(since, latest.start)
            latest, kind = self.waited_for(latest)
        if until > since:
            elsewhere = latest is not None and device not in self.occupies(latest)
            parts.append((END if elsewhere and kind == BUSY else DATA, until - since))
        return parts


def step_of(activity: Activity, waited: str) -> IdleStep:
    if isinstance(activity, Execution):
        lane = activity.device
        return IdleStep(activity.task, lane, activity.start, activity.end, False, waited)
    lane = f"{activity.src} → {activity.dst}"
    return IdleStep(activity.tensor, lane, activity.start, activity.end, True, waited)
