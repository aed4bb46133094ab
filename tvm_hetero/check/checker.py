"""The judge: is this a valid schedule of this problem, and is it worth what it says?

Every answer of every solver goes through `verified` before anyone sees it. The judge shares with
solvers what a problem, a platform and a schedule say (`Problem.seconds`, `Platform.path`), and no
code that times, counts memory or values a schedule; nor does it know `tvm_hetero.problem.simulate`.
tests/check/test_independence.py sees to that. The rules are those of the schedule format:

====  ==========================================================  ===================
rule  what is judged                                              by
====  ==========================================================  ===================
0     the schedule's own words: problem, kind, bound, status      `_judge_statement`
1     names, and every element of every task exactly once         `read_case`
..    durations; tasks of one color on one device                 `judge_...`
2     a device, and each core, runs one execution at a time       `judge_resources`
3     copies: durations, links, the path, its order               `judge_inputs`
..    exclusive links                                             `judge_resources`
4     a hop occupies its ends that lack a copy engine             `judge_resources`
5     inputs are there when an execution starts                   `judge_inputs`
6     memory (`memory.needs`)                                     `_judge_memory`
7     the value (`value.objective_value`), the latency limit      `_judge_value`
8     contiguous stages: the devices form a pipeline              `judge_pipeline`
====  ==========================================================  ===================

Times count as equal within 1e-9 of the makespan (`tolerances`). How the rules are read where they
could be read in two ways is said in `rules`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tvm_hetero.check import tolerances
from tvm_hetero.check.memory import all_bytes, needs
from tvm_hetero.check.parsed_schedule import (
    ParsedSchedule,
    Report,
    Violation,
    moment,
    name,
    read_case,
)
from tvm_hetero.check.rules import (
    judge_colors,
    judge_durations,
    judge_inputs,
    judge_pipeline,
    judge_resources,
)
from tvm_hetero.check.value import kept_busy, objective_value
from tvm_hetero.errors import SolverError
from tvm_hetero.problem.memoize import problem_cache
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Copy, Execution, Schedule
from tvm_hetero.util.units import format_bytes

# Plans found valid that are kept with their problem, the latest last.
_KEPT = 4
_FROZEN = (Execution, Copy)


def check_schedule(problem: Problem, schedule: Schedule) -> list[Violation]:
    """List every rule that `schedule` breaks as a schedule of `problem`; empty if it is valid.

    Of one rule at most 20 violations are listed, the others are counted in a last entry.

    Notes
    -----
    Takes time O(n log n) in executions plus copies.
    """
    case = read_case(problem, schedule)
    judge_durations(case)
    judge_colors(case)
    judge_resources(case)
    judge_inputs(case)
    judge_pipeline(case)
    _judge_memory(case)
    _judge_limit(case)
    # Where something could not be read, the value of the rest would say nothing.
    whole = len(case.executions), len(case.hops)
    if whole == (len(schedule.executions), len(schedule.copies)):
        _judge_value(case, schedule)
    _judge_statement(case.report, problem, schedule)
    return case.report.violations()


def verified(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule with value, bound and status as they really are.

    The value is the judge's; a bound above it by no more than OPTIMAL_GAP of it (the accuracy of
    linear programs) becomes the value; the status is optimal where the gap says so.

    Raises
    ------
    SolverError
        If the schedule is not valid; the message lists the violations.
    """
    bound = schedule.lower_bound
    if schedule.value < bound <= schedule.value * (1 + OPTIMAL_GAP):
        bound = schedule.value
    schedule = replace(schedule, lower_bound=bound, status="feasible")
    value = _value_if_valid(problem, schedule)
    if value is None:
        violations = check_schedule(problem, schedule)
    else:
        violations = _judge_words(problem, schedule, value)
    if violations:
        listed = "\n  ".join(str(violation) for violation in violations)
        raise SolverError(
            f"solver {schedule.solver!r} gave a schedule of {problem.name!r} that is not valid; "
            f"please report this, and use another solver:\n  {listed}"
        )
    if value is None:
        value = objective_value(problem, schedule.executions, schedule.copies)
        _keep(problem, _Judged(schedule.executions, schedule.copies, value))
    schedule = replace(schedule, value=value, lower_bound=min(bound, value))
    return replace(schedule, status="optimal" if schedule.gap <= OPTIMAL_GAP else "feasible")


class _Judged(NamedTuple):
    """A valid plan, and what the judge found it worth."""

    executions: tuple[Execution, ...]
    copies: tuple[Copy, ...]
    value: float


def _value_if_valid(problem: Problem, schedule: Schedule) -> float | None:
    """The value of a plan that was found valid before; None if it has to be judged.

    The same answer comes by many times: from the solver, from `auto`, with the bound beside it.
    It is known again by the very objects of its executions and copies, which cannot change;
    an equal plan is judged again.
    """
    for judged in _judged(problem):
        if judged.executions is schedule.executions and judged.copies is schedule.copies:
            return judged.value
    return None


def _keep(problem: Problem, judged: _Judged) -> None:
    """Remember a valid plan, unless some part of it could change."""
    rows: list[Execution | Copy] = [*judged.executions, *judged.copies]
    lasting = type(judged.executions) is tuple and type(judged.copies) is tuple
    if lasting and all(type(a) in _FROZEN and type(a.elements) is tuple for a in rows):
        problem_cache(problem)["judged"] = (*_judged(problem), judged)[-_KEPT:]


def _judged(problem: Problem) -> tuple[_Judged, ...]:
    known: tuple[_Judged, ...] = problem_cache(problem).get("judged", ())
    return known


def _judge_words(problem: Problem, schedule: Schedule, value: float) -> list[Violation]:
    """What is wrong with what is said of a plan that is valid and worth `value`."""
    report = Report()
    _judge_stated(report, problem, schedule, value)
    _judge_statement(report, problem, schedule)
    return report.violations()


def _judge_memory(case: ParsedSchedule) -> None:
    copies = [hop.copy for hop in case.hops]
    limits = {device.name: device.memory for device in case.problem.platform.devices}
    most = all_bytes(case.problem, case.executions, copies)
    if all(limit is None or most[device] <= limit for device, limit in limits.items()):
        return
    for device, need in needs(case.problem, case.executions, copies).items():
        capacity = limits[device]
        if capacity is not None and need.bytes > capacity:
            over = need.bytes - capacity
            text = (
                f"device {device!r} needs {format_bytes(need.bytes)} at {moment(need.seconds)} "
                f"and has {format_bytes(capacity)}: {format_bytes(over)} too little"
            )
            case.report.add(6, text, over)


def _judge_limit(case: ParsedSchedule) -> None:
    limit = case.problem.objective.latency_limit
    end = tolerances.last_end(case.executions)
    if limit is not None and end > limit + case.tolerance:
        text = f"the last execution ends at {moment(end)}, the latency limit is {moment(limit)}"
        case.report.add(7, text, end - limit)


def _judge_value(case: ParsedSchedule, schedule: Schedule) -> None:
    """The stated value is the real one; in a steady state all work lies in one period."""
    problem = case.problem
    value = objective_value(problem, schedule.executions, schedule.copies)
    _judge_stated(case.report, problem, schedule, value)
    if case.steady:
        inside: list[Execution | Copy] = list(case.executions)
        inside += [hop.copy for hop in case.hops if kept_busy(problem, hop.link)]
        for activity in inside:
            if activity.end > value + case.tolerance:
                text = f"ends at {moment(activity.end)}, outside the period of {moment(value)}"
                case.report.add(7, f"{name(activity)} {text}", activity.end - value)


def _judge_stated(report: Report, problem: Problem, schedule: Schedule, value: float) -> None:
    off = abs(schedule.value - value)
    if not off <= tolerances.of_value(problem, schedule.executions, value):
        stated = f"the {problem.objective.kind} is stated as {schedule.value!r}"
        report.add(7, f"{stated} but is {value!r}", off)


def _judge_statement(report: Report, problem: Problem, schedule: Schedule) -> None:
    if schedule.problem != problem.digest:
        ours = f"this is {problem.digest:.12}...; see that the two files belong together"
        report.add(0, f"the schedule answers problem {schedule.problem:.12}..., {ours}")
    if schedule.kind != problem.objective.kind:
        theirs = f"the problem's is {problem.objective.kind!r}"
        report.add(0, f"the schedule's objective is {schedule.kind!r}, {theirs}")
    most, single = schedule.value, schedule.best_single_device
    if single is not None:
        most = min(most, single.value)
        if single.device not in problem.platform.index:
            report.add(0, f"best single device: there is no device {single.device!r}")
    if not 0 <= schedule.lower_bound <= most * (1 + tolerances.RELATIVE):
        text = f"expected a lower bound from 0 to {most!r}, got {schedule.lower_bound!r}"
        report.add(0, text, schedule.lower_bound - most)
    if schedule.status == "optimal" and not schedule.gap <= OPTIMAL_GAP:
        report.add(0, f"it is called optimal with a gap of {schedule.gap:.3g}", schedule.gap)
