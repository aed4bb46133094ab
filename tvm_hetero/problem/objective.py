"""What a schedule is worth (rule 7 of the schedule format), from its executions and copies.

With E the executions, C the copies (one link each), c(e) and c(h) what they take by the problem's
costs and the platform's links, and a hop occupying each of its ends that lacks a copy engine::

    makespan    max end(e), e in E
    busy(d)     sum c(e), e on d  +  sum c(h), h occupies d
    busy(i)     of a core i of teams: as of all devices on it, each hop once
    latency     makespan
    throughput  max of busy over devices, cores of teams, and exclusive links (hops over them)
    energy      sum over devices in use: watts * busy(d) + idle_watts * (makespan - busy(d))
                + sum over e with an energy of its own: that - watts * c(e)        -> `own_energies`
    cost        sum over devices in use: price / 3600 * makespan

A device is in use if it runs an execution or is an end of a hop. Of teams (devices that share
cores) idling and price are counted by core, each core of a device in use once, at the dearest
share (figure / number of cores) of the devices in use on it -> `charge`. Sums are exact
(`math.fsum`), so that they do not depend on the order of executions and copies.

For solvers, planning and reports. The judge counts for himself (`tvm_hetero.check.value`); tests
hold the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_hetero.platform.devices import Link
from tvm_hetero.platform.model import Platform
from tvm_hetero.platform.teams import NodeCore
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution

# Times are sums of floats; a solver may add them in another order, or scale them to integers and
# back. 1e-9 of the makespan is far above the rounding of either (1e-16 an addition, so even a
# chain of 100,000 tasks stays below 1e-11) and far below OPTIMAL_GAP and any measurement. The
# absolute part only matters where all times are 0.
RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-15

# A device by name, an exclusive link by its two ends, or a core of teams: ("core", node, number).
Resource = str | tuple[str, str] | tuple[str, str, int]


def makespan(executions: Sequence[Execution]) -> float:
    """End of the last execution, s."""
    return max((execution.end for execution in executions), default=0.0)


def tolerance(executions: Sequence[Execution]) -> float:
    """By how much two times of this schedule may differ and still count as equal, s."""
    return RELATIVE_TOLERANCE * makespan(executions) + ABSOLUTE_TOLERANCE


def list_engaged(platform: Platform, device: str) -> list[Resource]:
    """What an execution on a device keeps busy: the device, and its cores if it shares any."""
    return [device, *(("core", *core) for core in platform.team_cores.get(device, ()))]


def list_occupied(problem: Problem, link: Link) -> list[Resource]:
    """What a hop over `link` keeps busy: its ends without a copy engine, an exclusive link."""
    platform = problem.platform
    ends = [name for name in (link.src, link.dst) if not platform.device(name).overlap]
    # A core of both ends is busy once.
    result = list(dict.fromkeys(what for name in ends for what in list_engaged(platform, name)))
    if link.exclusive:
        result.append((link.src, link.dst))
    return result


def loads(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[Resource, float]:
    """Busy time of every device, core of teams and exclusive link in use, s.

    It is 0 for a device that only overlaps. Durations are those of the problem, not the ones that
    the schedule claims.
    """
    parts: dict[Resource, list[float]] = {}
    for execution in executions:
        seconds = problem.seconds(execution.task, execution.device, len(execution.elements))
        for resource in list_engaged(problem.platform, execution.device):
            parts.setdefault(resource, []).append(seconds)
    for copy in copies:
        parts.setdefault(copy.src, [])
        parts.setdefault(copy.dst, [])
        link = problem.platform.link(copy.src, copy.dst)
        if link is not None:
            nbytes = problem.graph.tensors[copy.tensor].bytes * len(copy.elements)
            for resource in list_occupied(problem, link):
                parts.setdefault(resource, []).append(link.seconds(nbytes))
    return {resource: math.fsum(seconds) for resource, seconds in parts.items()}


def objective_value(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> float:
    """Value of the problem's objective: s, s per batch, J per batch, or money per batch.

    The executions and copies are taken as valid; `tvm_hetero.check.check_schedule` judges them.
    """
    kind = problem.objective.kind
    end = makespan(executions)
    if kind == "latency":
        return end
    load = loads(problem, executions, copies)
    if kind == "throughput":
        return max(load.values(), default=0.0)
    return charge(problem, end, load, own_energies(problem, executions))


def own_energies(problem: Problem, executions: Sequence[Execution]) -> list[float]:
    """Joules of executions with an energy of their own, and those of their devices' watts off."""
    if problem.objective.kind != "energy" or not problem.has_energies:
        return []
    found = []
    for e in executions:
        cost, count = problem.costs[e.task][e.device], len(e.elements)
        if cost.energy:
            watts = problem.platform.device(e.device).watts or 0.0
            found += [cost.joules(count, watts), -watts * cost.seconds(count)]
    return found


def charge(
    problem: Problem, end: float, busy: Mapping[Any, float], own: Sequence[float] = ()
) -> float:
    """Energy or cost of what keeps resources busy for so long until `end`, J or money.

    `busy` has at least all devices in use (by name) and, of the cores of teams, those that are
    ever busy; `own` is what comes on top (`own_energies`).
    """
    energy = problem.objective.kind == "energy"
    terms = list(own)
    shares: dict[NodeCore, float] = {}
    for device in problem.platform.devices:
        if device.name not in busy:
            continue
        cores = problem.platform.team_cores.get(device.name, ())
        working, idle = (device.watts or 0.0) * busy[device.name], end - busy[device.name]
        # What is never idle may be busy for longer than the makespan, by rounding.
        if not cores:
            spent = working + device.idle_watts * max(0.0, idle)
            terms.append(spent if energy else (device.price or 0.0) / 3600.0 * end)
            continue
        terms.append(working if energy else 0.0)
        lasting = device.idle_watts if energy else (device.price or 0.0) / 3600.0
        for core in cores:
            shares[core] = max(shares.get(core, 0.0), lasting / len(cores))
    for core, share in shares.items():
        idle = max(0.0, end - busy.get(("core", *core), 0.0))
        terms.append(share * (idle if energy else end))
    return math.fsum(terms)
