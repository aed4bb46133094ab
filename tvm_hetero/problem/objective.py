"""What a schedule is worth (rule 7 of the schedule format), from its executions and copies.

With E the executions, C the copies (one link each), c(e) and c(h) what they take by the problem's
costs and the platform's links, and a hop occupying each of its ends that lacks a copy engine::

    makespan    max end(e), e in E
    busy(d)     sum c(e), e on d  +  sum c(h), h occupies d
    latency     makespan
    throughput  max of busy(d) over devices and of sum c(h), h over l, over exclusive links l
    energy      sum over devices in use: watts * busy(d) + idle_watts * (makespan - busy(d))
    cost        sum over devices in use: price / 3600 * makespan

A device is in use if it runs an execution or is an end of a hop. Sums are exact (`math.fsum`),
so that they do not depend on the order of executions and copies.

For solvers, planning and reports. The judge counts for himself (`tvm_hetero.check.value`); tests
hold the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.platform.devices import Link
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Copy, Execution

# Times are sums of floats; a solver may add them in another order, or scale them to integers and
# back. 1e-9 of the makespan is far above the rounding of either (1e-16 an addition, so even a
# chain of 100,000 tasks stays below 1e-11) and far below OPTIMAL_GAP and any measurement. The
# absolute part only matters where all times are 0.
RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-15

# A device by name, or an exclusive link by its two ends.
Resource = str | tuple[str, str]


def makespan(executions: Sequence[Execution]) -> float:
    """End of the last execution, s."""
    return max((execution.end for execution in executions), default=0.0)


def tolerance(executions: Sequence[Execution]) -> float:
    """By how much two times of this schedule may differ and still count as equal, s."""
    return RELATIVE_TOLERANCE * makespan(executions) + ABSOLUTE_TOLERANCE


def list_occupied(problem: Problem, link: Link) -> list[Resource]:
    """What a hop over `link` keeps busy: its ends without a copy engine, an exclusive link."""
    ends = [problem.platform.device(name) for name in (link.src, link.dst)]
    result: list[Resource] = [device.name for device in ends if not device.overlap]
    if link.exclusive:
        result.append((link.src, link.dst))
    return result


def loads(
    problem: Problem, executions: Sequence[Execution], copies: Sequence[Copy]
) -> dict[Resource, float]:
    """Busy time of every device and exclusive link in use, s (0 for a device that only overlaps).

    Durations are those of the problem, not the ones that the schedule claims.
    """
    parts: dict[Resource, list[float]] = {}
    for execution in executions:
        seconds = problem.seconds(execution.task, execution.device, len(execution.elements))
        parts.setdefault(execution.device, []).append(seconds)
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
    used = [device for device in problem.platform.devices if device.name in load]
    if kind == "energy":
        return math.fsum(
            (device.watts or 0.0) * load[device.name]
            + device.idle_watts * max(0.0, end - load[device.name])
            for device in used
        )
    return math.fsum((device.price or 0.0) / 3600.0 * end for device in used)
