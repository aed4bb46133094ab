"""What a schedule is worth, as the judge counts it (rules 4 and 7 of docs/formats.md).

Every execution and every hop is charged to whatever it keeps busy, by what the problem says that
it takes, not by what the schedule says:

    an execution   its device
    a hop          each of its two ends, with no time if the end has a copy engine (`overlap`),
                   and its link if that is exclusive
    either         every core of such a device that is a team: that has a core in common with
                   another device of its node

Charges are sorted by whom they are for, and added up one resource after the other. A device that
is charged at all, if with no time, is in use. What a task says that it draws stands for the watts
of its device. `tvm_hetero.problem.objective`, which solvers and reports use, is another
implementation of these rules: tests/check/test_independence.py lets the two disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from tvm_hetero.check.tolerances import last_end
from tvm_hetero.platform.devices import Link
from tvm_hetero.problem.memoize import cached_per_problem
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution

# A device (its name), an exclusive link (its two ends), or a core of teams.
Resource = tuple[str] | tuple[str, str] | tuple[str, str, int]
_Charge = tuple[Resource, float]


@cached_per_problem
def teams(problem: Problem) -> dict[str, list[Resource]]:
    """The cores of every device that has one in common with another, by its name."""
    platform = problem.platform
    if platform.shared_cores:
        return {}
    on: dict[tuple[str, int], set[str]] = {}
    for device in platform.devices:
        for core in device.cores:
            on.setdefault((device.node, core), set()).add(device.name)
    together = {name for names in on.values() if len(names) > 1 for name in names}
    return {
        device.name: [("core", device.node, core) for core in device.cores]
        for device in platform.devices
        if device.name in together
    }


def kept_busy(problem: Problem, link: Link) -> list[Resource]:
    """What a hop over `link` excludes other work from: ends without copy engine, its own link."""
    device, cores = problem.platform.device, teams(problem)
    ends = [end for end in (link.src, link.dst) if not device(end).overlap]
    busy: list[Resource] = [(end,) for end in ends]
    # A core of both ends is no busier than a core of one.
    busy += sorted({core for end in ends for core in cores.get(end, [])})
    return [*busy, (link.src, link.dst)] if link.exclusive else busy


def busy_times(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[Resource, float]:
    """Busy seconds of each device, core of teams and exclusive link in use.

    Sums are exact (`math.fsum`), so they do not depend on the order of the charges.
    """
    charges = [*_of_executions(problem, executions), *_of_copies(problem, copies)]
    charges.sort(key=lambda charge: (len(charge[0]), charge[0]))
    return {
        resource: math.fsum(seconds for _, seconds in own)
        for resource, own in groupby(charges, key=itemgetter(0))
    }


def _of_executions(problem: Problem, executions: Sequence[Execution]) -> Iterator[_Charge]:
    cores = teams(problem)
    for e in executions:
        seconds = problem.costs[e.task][e.device].seconds(len(e.elements))
        for resource in ((e.device,), *cores.get(e.device, [])):
            yield resource, seconds


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
    energy = kind == "energy"
    own = _of_tasks(problem, executions) if energy else []
    return math.fsum([*_spendings(problem, busy, end, energy=energy), *own])


def _of_tasks(problem: Problem, executions: Sequence[Execution]) -> Iterator[float]:
    """What executions draw whose task has an energy of its own, instead of the device's watts."""
    for e in executions:
        cost, count = problem.costs[e.task][e.device], len(e.elements)
        if cost.energy:
            yield cost.joules(count, None)
            yield -(problem.platform.device(e.device).watts or 0.0) * cost.seconds(count)


def _spendings(
    problem: Problem, busy: dict[Resource, float], end: float, *, energy: bool
) -> Iterator[float]:
    """What devices in use spend or are paid for; of teams, what lasts is each core's.

    A core costs, and spends while idle, the most that a device in use on it has for each core.
    """
    cores = teams(problem)
    most: dict[Resource, float] = {}
    for name in (key[0] for key in busy if len(key) == 1):
        device, mine = problem.platform.device(name), cores.get(name, [])
        price, seconds = (device.price or 0.0) / 3600.0, busy[name,]
        working, idle = (device.watts or 0.0) * seconds, device.idle_watts
        if mine:
            for core in mine:
                most[core] = max(most.get(core, 0.0), (idle if energy else price) / len(mine))
            yield working if energy else 0.0
        else:
            # A device that is never idle may be busy for longer than the makespan, by rounding.
            yield working + idle * max(0.0, end - seconds) if energy else price * end
    for core, rate in most.items():
        yield rate * (max(0.0, end - busy.get(core, 0.0)) if energy else end)
