"""A schedule laid out for judging: what can be read of it, and the report of what cannot.

`read_case` looks at names, elements and numbers only. An execution or copy that makes no sense
(no such task, an element outside the batch, a NaN) is reported and left out, so that the rules
in `tvm_hetero.check.rules` can rely on what is left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tvm_hetero.check import tolerances
from tvm_hetero.platform.devices import Link
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.util.nearest import nearest

# Of each rule this many violations are listed; the others are counted.
MAX_LISTED = 20


@dataclass(frozen=True)
class Violation:
    """A rule that is broken: which one, where, and by how much (s, bytes, or a count)."""

    rule: int
    text: str
    amount: float = 0.0

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.text}"


class Report:
    """Violations as they are found; of each rule the first few in full."""

    def __init__(self) -> None:
        self._listed: list[Violation] = []
        self._counts: Counter[int] = Counter()

    def add(self, rule: int, text: str, amount: float = 0.0) -> None:
        """Note that `rule` is broken."""
        self._counts[rule] += 1
        if self._counts[rule] <= MAX_LISTED:
            self._listed.append(Violation(rule, text, amount))

    def violations(self) -> list[Violation]:
        """All that were noted, by rule; those that are not listed as one entry a rule."""
        left = {rule: count - MAX_LISTED for rule, count in self._counts.items()}
        more = [
            Violation(rule, f"{count} more violations of this rule", count)
            for rule, count in left.items()
            if count > 0
        ]
        return sorted([*self._listed, *more], key=lambda violation: violation.rule)


class Hop(NamedTuple):
    """A copy, the link that it takes, and the execution (a position) that made its tensor."""

    copy: Copy
    link: Link
    made_by: int


class ParsedSchedule(NamedTuple):
    """What is judged.

    `maker` says which execution (a position) makes each (task, element); `tolerance` (s) by how
    much two equal times may differ.
    """

    problem: Problem
    executions: list[Execution]
    hops: list[Hop]
    maker: dict[tuple[str, int], int]
    tolerance: float
    report: Report

    @property
    def steady(self) -> bool:
        """Whether this is one period of a steady state, without precedence."""
        return self.problem.objective.kind == "throughput"

    def nbytes(self, tensor: str, made_by: int) -> int:
        """Bytes of a tensor as one execution makes it, for all of its elements."""
        return self.problem.graph.tensors[tensor].bytes * len(self.executions[made_by].elements)


def read_case(problem: Problem, schedule: Schedule) -> ParsedSchedule:
    """Lay out a schedule for judging; what makes no sense is in the report already."""
    report = Report()
    executions = [e for e in schedule.executions if _makes_sense(problem, e, report)]
    maker = _makers(problem, executions, report)
    case = ParsedSchedule(problem, executions, [], maker, tolerances.of_times(executions), report)
    for copy in schedule.copies:
        hop = _read_copy(case, copy)
        if hop is not None:
            case.hops.append(hop)
    return case


def _makes_sense(problem: Problem, execution: Execution, report: Report) -> bool:
    """Whether names, elements and times of an execution can be judged (rule 1)."""
    if execution.task not in problem.graph.index:
        close = nearest(execution.task, problem.graph.index)
        trouble = f"there is no such task{close}"
    elif execution.device not in problem.costs[execution.task]:
        able = ", ".join(problem.devices_for(execution.task))
        trouble = f"the device cannot run it; it can run on {able}"
    else:
        trouble = _trouble(problem, execution)
    if trouble:
        report.add(1, f"{name(execution)}: {trouble}")
    return not trouble


def _trouble(problem: Problem, activity: Execution | Copy) -> str:
    """What is wrong with the elements or times of an execution or copy; empty if nothing is."""
    elements = activity.elements
    if not elements or not all(0 <= n < problem.batch for n in elements):
        return f"elements {list(elements)} are no part of the batch of {problem.batch}"
    if len(set(elements)) < len(elements):
        return f"elements {list(elements)} name one element twice"
    # Written so that a NaN, of which every comparison is false, is trouble.
    if not (0 <= activity.start < math.inf and 0 <= activity.end < math.inf):
        return f"expected times from 0 on, got {activity.start!r} to {activity.end!r}"
    return ""


def _makers(
    problem: Problem, executions: Sequence[Execution], report: Report
) -> dict[tuple[str, int], int]:
    """Rule 1: each element of each task is in exactly one execution; in which one."""
    maker: dict[tuple[str, int], int] = {}
    for i, execution in enumerate(executions):
        for n in execution.elements:
            if maker.setdefault((execution.task, n), i) != i:
                report.add(1, f"task {execution.task!r}, element {n}: executed more than once", 1)
    for task in problem.graph.index:
        missing = [n for n in range(problem.batch) if (task, n) not in maker]
        if missing:
            elements = f", elements {missing[:10]}" if problem.batch > 1 else ""
            report.add(1, f"task {task!r}{elements}: not executed", len(missing))
    return maker


def _read_copy(case: ParsedSchedule, copy: Copy) -> Hop | None:
    """The link and the maker of a copy; None if names, elements or times make no sense (rule 3)."""
    problem = case.problem
    tensor = problem.graph.tensors.get(copy.tensor)
    known = all(device in problem.platform.index for device in (copy.src, copy.dst))
    link = problem.platform.link(copy.src, copy.dst) if known else None
    trouble = _trouble(problem, copy)
    if tensor is None:
        trouble = f"there is no such tensor{nearest(copy.tensor, problem.graph.tensors)}"
    elif link is None:
        trouble = "there is no direct link"
    elif not trouble:
        made_by = case.maker.get((tensor.src, copy.elements[0]))
        if made_by is not None and set(case.executions[made_by].elements) == set(copy.elements):
            return Hop(copy, link, made_by)
        trouble = f"elements {list(copy.elements)} are not those of one execution of {tensor.src!r}"
    case.report.add(3, f"{name(copy)}: {trouble}")
    return None


def name(activity: Execution | Copy) -> str:
    """An execution or copy in words, without times."""
    elements = f" {list(activity.elements[:8])}" if activity.elements != (0,) else ""
    if isinstance(activity, Execution):
        return f"task {activity.task!r}{elements} on {activity.device!r}"
    return f"copy of {activity.tensor!r}{elements} from {activity.src!r} to {activity.dst!r}"


def moment(seconds: float) -> str:
    """A time with enough digits to tell two moments of one schedule apart."""
    return f"{seconds:.9g} s"
