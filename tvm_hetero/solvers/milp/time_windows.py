"""When a candidate of the MILP can take place at all: heads, tails and the horizon.

    ready(v, d)  no execution of v on d starts earlier (its head less its shortest duration)
    tail(v, d)   no less than this passes after it

from `tvm_hetero.bounds.latency.heads_tails` with the shortest duration over all batch sizes and
copies of one element: every element passes through every task, so this holds however the batch is
divided. A mode whose ready + duration + tail is beyond the horizon is left out; the others give
every start a window, and every big-M is a difference of two windows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tvm_hetero.bounds.latency.heads_tails import critical_path, heads_and_tails
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.milp.candidates import Candidates, Mode
from tvm_hetero.views.instance import Instance

# What the makespan may exceed a limit or a known value by: sums of floats differ that much.
ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Windows:
    """`ready` and `tail` of every (task, device), the horizon and the critical path, all s."""

    ready: list[list[float]]
    tail: list[list[float]]
    horizon: float
    path: float


def make_windows(instance: Instance, candidates: Candidates, start: Schedule | None) -> Windows:
    """Heads and tails, and a makespan that some best schedule does not exceed."""
    batch, devices = instance.problem.batch, range(len(instance.names))
    least = [[math.inf] * len(devices) for _ in range(len(instance))]
    for row in candidates.rows:
        for mode in row.modes:
            seconds = duration(instance, row.task, mode)
            least[row.task][mode.device] = min(least[row.task][mode.device], seconds)
    head, tail = heads_and_tails(
        instance,
        lambda v, d: least[v][d],
        lambda t: instance.copies(instance.tensors[t].nbytes // batch),
    )
    ready = [
        [head[v][d] - least[v][d] if least[v][d] < math.inf else math.inf for d in devices]
        for v in range(len(instance))
    ]
    path = critical_path(instance, head, tail)
    return Windows(ready, tail, _horizon(instance, candidates, start) * ROUNDING, path)


def duration(instance: Instance, v: int, mode: Mode) -> float:
    """Time of an execution, s."""
    problem = instance.problem
    return problem.seconds(instance.tasks[v], instance.names[mode.device], mode.size)


def _horizon(instance: Instance, candidates: Candidates, start: Schedule | None) -> float:
    """A makespan (s) that some best schedule does not exceed."""
    objective = instance.problem.objective
    if objective.kind == "latency" and start is not None:
        return start.value
    # Nothing need ever wait while all is idle, so a schedule is no longer than all it does.
    parts = [
        max((duration(instance, row.task, mode) for mode in row.modes), default=0.0)
        for row in candidates.rows
    ]
    devices, batch = range(len(instance.names)), instance.problem.batch
    for flow in instance.tensors:
        for row in (candidates.rows[e] for e in candidates.of[flow.maker]):
            longest = 0.0
            for n in {mode.size for mode in row.modes}:
                size = flow.nbytes // batch * n
                routes = [instance.route(j, k, size) or () for j in devices for k in devices]
                hops = sorted({hop for route in routes for hop in route})
                longest = max(longest, math.fsum(instance.hop_seconds(h, size) for h in hops))
            parts.append(longest)
    return min(math.fsum(parts), _limit(instance, start))


def _limit(instance: Instance, start: Schedule | None) -> float:
    """A makespan (s) that the latency limit or a known value of energy or cost does not allow.

    Some device is in use all the time, at no less than its smaller power or its price.
    """
    objective, devices = instance.problem.objective, instance.problem.platform.devices
    limit = math.inf if objective.latency_limit is None else objective.latency_limit
    if start is None or objective.kind not in ("energy", "cost"):
        return limit
    if objective.kind == "cost":
        rates = [(device.price or 0.0) / 3600.0 for device in devices]
    else:
        rates = [min(device.watts or 0.0, device.idle_watts) for device in devices]
    least = min(rates[d] for allowed in instance.devices for d in allowed)
    return min(limit, start.value / least) if least > 0 else limit


def prune(instance: Instance, candidates: Candidates, windows: Windows) -> Candidates:
    """The candidates without the modes that no schedule within the horizon has."""
    rows = []
    for row in candidates.rows:
        v = row.task
        modes = tuple(
            mode
            for mode in row.modes
            if windows.ready[v][mode.device]
            + duration(instance, v, mode)
            + windows.tail[v][mode.device]
            <= windows.horizon * ROUNDING
        )
        rows.append(replace(row, modes=modes))
    return replace(candidates, rows=tuple(rows))
