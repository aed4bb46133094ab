"""Hours alone put one after the other: a day to begin from, whose moves are few.

Hours that are planned apart call like machines differently. Here each hour's machines get the names
under which least has to be moved since the hour before (an assignment problem for each kind). An
hour keeps what the hour before has where that carries it and costs the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from tvm_hetero.planning.sharing.hours import HourAlone, Need, is_below
from tvm_hetero.planning.sharing.problem import DayPlan, MachineHour, SharingProblem

_Hour = tuple[MachineHour, ...]


def chain_hours(problem: SharingProblem, hours: Sequence[HourAlone]) -> DayPlan:
    """A day of these hours; it may break the rule of memory where models move."""
    planned: list[_Hour] = []
    for t, need in enumerate(problem.need):
        kept = _kept(problem, planned, t, need, hours)
        planned.append(kept or rename(problem, planned[-1] if planned else (), hours[t].plan))
    return by_use(problem, planned)


def _kept(
    problem: SharingProblem,
    planned: Sequence[_Hour],
    t: int,
    need: Need,
    hours: Sequence[HourAlone],
) -> _Hour:
    """What the hour before has, if it carries this one too at its price; else nothing."""
    if not planned or hours[t].value < hours[t - 1].value:
        return ()
    return planned[-1] if is_below(need, carried(problem, planned[-1])) else ()


def carried(problem: SharingProblem, hour: _Hour) -> Need:
    """What is answered of every model, rounded down."""
    total = [0] * len(problem.models)
    for each in hour:
        mode = problem.kinds[problem.machines[each.machine]].modes[each.mode]
        for i, parts in each.parts.items():
            total[i] += mode.carries[i] * parts
    return tuple(each // problem.parts for each in total)


def rename(problem: SharingProblem, before: _Hour, hour: _Hour) -> _Hour:
    """The hour with the names of machines for which starts and loads cost least."""
    was = {each.machine: problem.copies(each).items() for each in before}
    found: list[MachineHour] = []
    for m, kind in enumerate(problem.kinds):
        names = [j for j, own in enumerate(problem.machines) if own == m]
        rows = [each for each in hour if problem.machines[each.machine] == m]
        moves = np.array([
            [
                (0 if j in was else kind.start)
                + sum(kind.loads[i] for i, _ in problem.copies(each).items() - was.get(j, set()))
                for j in names
            ]
            for each in rows
        ]).reshape(len(rows), len(names))  # fmt: skip
        for row, name in zip(*linear_sum_assignment(moves), strict=True):
            found.append(replace(rows[row], machine=names[name]))
    return tuple(sorted(found, key=lambda each: each.machine))


def by_use(problem: SharingProblem, plan: Sequence[_Hour]) -> DayPlan:
    """The first machine of a kind is on for most hours, as the program has it."""
    hours_on = [sum(e.machine == j for hour in plan for e in hour) for j in
                range(len(problem.machines))]  # fmt: skip
    order = sorted(range(len(problem.machines)), key=lambda j: (problem.machines[j], -hours_on[j]))
    new = {old: j for j, old in enumerate(order)}
    return tuple(
        tuple(sorted(
            (replace(e, machine=new[e.machine]) for e in hour), key=lambda e: e.machine
        ))
        for hour in plan
    )  # fmt: skip
