"""What a schedule is worth, as the judge counts it (rules 4 and 7 of docs/formats.md).

Every execution and every hop is charged to whatever it keeps busy, by what the problem says that
it takes, not by what the schedule says:

    an execution   its device
    a hop          each of its two ends, with no time if the end has a copy engine (`overlap`),
                   and its link if that is exclusive

Charges are sorted by whom they are for, and added up one resource after the other. A device that
is charged at all, if with no time, is in use. `tvm_hetero.problem.objective`, which solvers and
reports use, is another implementation of these rules: tests/check/test_independence.py lets the
two disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from tvm_hetero.check.tolerances import last_end
from tvm_hetero.platform.devices import Link
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution

# A device (its name) or an exclusive link (its two ends).
Resource = tuple[str] | tuple[str, str]
_Charge = tuple[Resource, float]


def kept_busy(problem: Problem, link: Link) -> list[Resource]:
    """What a hop over `link` excludes other work from: ends without copy engine, its own link."""
    device = problem.platform.device
    ends = [end for end in (link.src, link.dst) if not device(end).overlap]
    busy: list[Resource] = [(end,) for end in ends]
    return [*busy, (link.src, link.dst)] if link.exclusive else busy


def busy_times(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[Resource, float]:
    """Busy seconds of each device in use and of each exclusive link in use.

    Sums are exact (`math.fsum`), so they do not depend on the order of the charges.
    """
    charges = [*_of_executions(problem, executions), *_of_copies(problem, copies)]
    charges.sort(key=itemgetter(0))
    return {
        resource: math.fsum(seconds for _, seconds in own)
        for resource, own in groupby(charges, key=itemgetter(0))
    }


def _of_executions(problem: Problem, executions: Sequence[Execution]) -> Iterator[_Charge]:
    for e in executions:
        yield (e.device,), problem.costs[e.task][e.device].seconds(len(e.elements))


def _of_copies(problem: Problem, copies: Sequence[Copy]) -> Iterator[_Charge]:
    for hop in copies:
        for end in (hop.src, hop.dst):
            yield (end,), 0.0
        link = problem.platform.link(hop.src, hop.dst)
        if link is not None:
            moved = len(hop.elements) * problem.graph.tensors[hop.tensor].bytes
            for resource in kept_busy(problem, link):
                yield resource, link.seconds(moved)


def objective_value(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> float:
    """Value of the problem's objective: s, s per batch, J per batch, or money per batch.

    The executions and copies are taken as valid; `check_schedule` judges them.
    """
    kind, end = problem.objective.kind, last_end(executions)
    if kind == "latency":
        return end
    busy = busy_times(problem, executions, copies)
    if kind == "throughput":
        return max(busy.values(), default=0.0)
    used = [(problem.platform.device(key[0]), t) for key, t in busy.items() if len(key) == 1]
    if kind == "cost":
        return math.fsum((device.price or 0.0) / 3600.0 * end for device, _ in used)
    return math.fsum(
        # A device that is never idle may be busy for longer than the makespan, by rounding.
        (device.watts or 0.0) * seconds + device.idle_watts * max(0.0, end - seconds)
        for device, seconds in used
    )
