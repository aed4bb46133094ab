"""Rules 1 to 5 and 8 of the schedule format: durations, places, copies, inputs, pipelines.

How the rules are read where they could be read in two ways:

- *Copies.* A tensor made by one execution (with all of its elements) is one thing. From its
  maker's device to each device with a reader it takes exactly the hops of `Platform.path` for its
  bytes; a hop on several of these paths is made once. A hop that no reader needs is an error.
- *One at a time* means: of two activities on a resource, one ends before the other starts. An
  activity of length 0 may therefore not lie inside another one, only at its ends.
- *Throughput.* A schedule shows one period of the steady state. Nothing precedes anything in it,
  and hops need not exclude each other: hops a -> b, b -> c and c -> a between devices without
  copy engines cannot be packed into a period of their loads, and by rule 7 the value is the
  largest load.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tvm_hetero.check.parsed_schedule import ParsedSchedule, moment, name
from tvm_hetero.check.value import Resource, kept_busy, teams
from tvm_hetero.errors import PlatformError
from tvm_hetero.problem.schedule import Copy, Execution
from tvm_hetero.util.units import format_seconds

# A hop: its tensor, the execution that made it, and its two ends.
_Key = tuple[str, int, str, str]


def judge_durations(case: ParsedSchedule) -> None:
    """Rules 1 and 3: an execution takes what its task costs there, a hop what its link says."""
    for e in case.executions:
        points = case.problem.costs[e.task][e.device].points
        _judge_duration(case, 1, e, _seconds(points, len(e.elements)))
    for copy, link, made_by in case.hops:
        _judge_duration(case, 3, copy, link.seconds(case.nbytes(copy.tensor, made_by)))


def _judge_duration(
    case: ParsedSchedule, rule: int, activity: Execution | Copy, expected: float
) -> None:
    taken = activity.end - activity.start
    if not abs(taken - expected) <= case.tolerance:
        text = f"takes {format_seconds(taken)} instead of {format_seconds(expected)}"
        case.report.add(rule, f"{name(activity)}: {text}", abs(taken - expected))


def _seconds(points: Sequence[tuple[int, float]], elements: int) -> float:
    """What a cost table says of `elements` at once, read again: solvers take `Cost.seconds`."""
    for (n0, s0), (n1, s1) in pairwise([(0, 0.0), *points]):
        if elements <= n1:
            share = (elements - n0) / (n1 - n0)
            return (1 - share) * s0 + share * s1
    # Beyond the table: a last slope that falls gives way to the last time an element.
    return s1 * elements / n1 if s1 < s0 else s1 + (s1 - s0) * (elements - n1) / (n1 - n0)


def judge_colors(case: ParsedSchedule) -> None:
    """Rule 1: all executions of the tasks of one color are on one device."""
    homes: dict[str, set[str]] = {}
    for e in case.executions:
        color = case.problem.graph.task(e.task).color
        if color is not None:
            homes.setdefault(color, set()).add(e.device)
    for color, devices in homes.items():
        if len(devices) > 1:
            text = f"its tasks must share one device but are on {', '.join(sorted(devices))}"
            case.report.add(1, f"color {color!r}: {text}", len(devices) - 1)


def judge_resources(case: ParsedSchedule) -> None:
    """Rules 2, 3 and 4: devices (with the hops that occupy them), their cores, exclusive links."""
    users: dict[Resource, list[Execution | Copy]] = {}
    cores = teams(case.problem)
    for e in case.executions:
        for resource in ((e.device,), *cores.get(e.device, [])):
            users.setdefault(resource, []).append(e)
    for hop in case.hops if not case.steady else []:
        for resource in kept_busy(case.problem, hop.link):
            users.setdefault(resource, []).append(hop.copy)
    for resource, activities in users.items():
        # Who is on a team is on all of its cores, so these say it all.
        if resource[0] not in cores or len(resource) > 1:
            _judge_resource(case, resource, activities)


def _judge_resource(
    case: ParsedSchedule, resource: Resource, users: list[Execution | Copy]
) -> None:
    """Compare each activity, by start, with the one before it that ends last.

    Of two that touch, rounding may let the later one start a little before the other's end, or
    one without length a little after the other's start: so both orders are tried.
    """
    users.sort(key=lambda activity: (activity.start, activity.end))
    last = users[0]
    for activity in users[1:]:
        after = activity.start >= last.end - case.tolerance
        before = activity.end <= last.start + case.tolerance
        if not after and not before:
            overlap = min(last.end, activity.end) - activity.start
            pair = f"{_timed(last)} and {_timed(activity)}"
            if len(resource) != 2:
                rule = 2 if isinstance(last, Execution) and isinstance(activity, Execution) else 4
                one = f"device {resource[0]!r}"
                if len(resource) == 3:
                    one = f"core {resource[2]} of {resource[1]!r}"
                text = f"{one} does two things at once: {pair}"
            else:
                rule = 3
                text = f"exclusive link {resource[0]!r} -> {resource[1]!r} is shared: {pair}"
            case.report.add(rule, text, overlap)
        last = max(last, activity, key=lambda one: one.end)


def _timed(activity: Execution | Copy) -> str:
    return f"{name(activity)} ({moment(activity.start)} to {moment(activity.end)})"


def judge_inputs(case: ParsedSchedule) -> None:
    """Rules 3 and 5: every tensor is copied where it is read, in time, and nowhere else."""
    routes = _Routes(case)
    for e in case.executions:
        for tensor in case.problem.graph.inputs[e.task]:
            made = (case.maker.get((tensor.src, n)) for n in e.elements)
            for made_by in sorted({i for i in made if i is not None}):
                there = routes.arrival(tensor.name, made_by, e.device)
                if there is not None and e.start < there - case.tolerance and not case.steady:
                    text = f"tensor {tensor.name!r} is there only at {moment(there)}"
                    text = f"{name(e)} starts at {moment(e.start)}; {text}"
                    case.report.add(5, text, there - e.start)
    routes.judge_unneeded()


class _Routes:
    """The hops of the schedule, followed from the makers of tensors to their readers."""

    def __init__(self, case: ParsedSchedule) -> None:
        self.case = case
        self.hops: dict[_Key, Copy] = {}
        self.judged: set[_Key] = set()
        self.arrivals: dict[tuple[str, int, str], float | None] = {}
        for copy, _, made_by in case.hops:
            key = (copy.tensor, made_by, copy.src, copy.dst)
            if key in self.hops:
                case.report.add(3, f"{name(copy)}: made more than once", 1)
            self.hops.setdefault(key, copy)

    def arrival(self, tensor: str, made_by: int, device: str) -> float | None:
        """When a tensor is on `device`, s; None if it never is, which is then reported."""
        key = (tensor, made_by, device)
        if key not in self.arrivals:
            self.arrivals[key] = self._follow(*key)
        return self.arrivals[key]

    def _follow(self, tensor: str, made_by: int, device: str) -> float | None:
        maker = self.case.executions[made_by]
        nbytes = self.case.nbytes(tensor, made_by)
        try:
            path = self.case.problem.platform.path(maker.device, device, nbytes)
        except PlatformError as error:
            self.case.report.add(5, f"tensor {tensor!r} is read on {device!r}: {error}")
            return None
        whole: float | None = maker.end
        for link in path:
            key = (tensor, made_by, link.src, link.dst)
            if key not in self.judged:
                self.judged.add(key)
                self._judge_hop(key, whole, device)
            copy = self.hops.get(key)
            whole = None if whole is None or copy is None else copy.end
        return whole

    def _judge_hop(self, key: _Key, whole: float | None, reader: str) -> None:
        """The hop is made, and not before its tensor is whole at the near end."""
        tensor, made_by, src, dst = key
        if key not in self.hops:
            what = f"tensor {tensor!r} of {name(self.case.executions[made_by])}"
            text = f"{what} is not copied from {src!r} to {dst!r} for its reader on {reader!r}"
            self.case.report.add(3, text, 1)
        elif whole is not None and not self.case.steady:
            copy = self.hops[key]
            if copy.start < whole - self.case.tolerance:
                text = f"starts at {moment(copy.start)}; the tensor is whole at {moment(whole)}"
                self.case.report.add(3, f"{name(copy)} {text}", whole - copy.start)

    def judge_unneeded(self) -> None:
        """Rule 3: there is a hop only where a reader needs it."""
        for key, copy in self.hops.items():
            if key not in self.judged:
                self.case.report.add(3, f"{name(copy)}: no reader needs this hop", 1)


def judge_pipeline(case: ParsedSchedule) -> None:
    """Rule 8: with contiguous stages, what devices read from each other forms no cycle."""
    if not case.problem.objective.contiguous:
        return
    cycle = _cycle(_readers(case))
    if cycle:
        way = " -> ".join(repr(device) for device in (*cycle, cycle[0]))
        text = f"the stages are not contiguous: tensors are read along {way}"
        case.report.add(8, text, len(cycle))


def _readers(case: ParsedSchedule) -> dict[str, set[str]]:
    """For every device the other devices that read what it makes; inputs and outputs aside."""
    after: dict[str, set[str]] = {}
    ends = case.problem.terminals
    for e in case.executions:
        if e.task in ends:
            continue
        for tensor in case.problem.graph.inputs[e.task]:
            if tensor.src in ends:
                continue
            for n in e.elements:
                made_by = case.maker.get((tensor.src, n))
                home = e.device if made_by is None else case.executions[made_by].device
                if home != e.device:
                    after.setdefault(home, set()).add(e.device)
    return after


def _cycle(after: dict[str, set[str]]) -> list[str]:
    """Some cycle; empty if there is none.

    Devices that none of those left reads from are taken away until all that is left lies on or
    behind a cycle; from any of them, going back long enough ends in one.
    """
    left = set(after)
    while True:
        fed = {reader for device in left for reader in after[device]} & left
        if fed == left:
            break
        left = fed
    if not left:
        return []
    way = [min(left)]
    while way[-1] not in way[:-1]:
        way.append(min(device for device in left if way[-1] in after[device]))
    return way[: way.index(way[-1]) : -1]
