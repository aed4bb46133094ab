"""How many tasks of each kind every device takes, where what fits decides and copies do not.

Coarse tasks fill memories badly in segments: of alternating tasks of 1.3 and 2.4 GB a device of
17 GB takes 9 in a row (16.2 GB), but 6 large and 2 small ones are 17.1 GB. Atoms of a line
(`machine_counts`) of equal costs and weight are one kind; with a(d, k) how many of kind k device d
takes,

    minimise  sum c(k, d) a(d, k)          (latency of a chain)      or T        (throughput)
    subject to  sum over d of a(d, k) = N_k,   sum over k of w_k a(d, k) <= memory of d,
                sum over k of c(k, d) a(d, k) <= T,  falling along devices that are alike

by CP-SAT: a handful of integers a device, however many tasks there are    -> `cpsat_counts`
Then the line is walked, staying on a device as long as it has the next atom's kind left, and going
on where the row that can follow is longest, in the same node if there is a choice  -> `realise`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, run
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.machine_counts import NodeType, TaskLine

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

# Devices and kinds above which no plan is made; where times add up (latency), more devices than
# these have fast memory to spare, and segments do as well.
_MOST_DEVICES = {"latency": 64, "throughput": 256}
_MOST_KINDS = 16
_UNITS = 2.0**36
_BYTES = 2.0**24
# Deterministic time, and its part of the time limit for more devices than _FEW.
_WORK = 1.0
_PART = 1 / 8
_FEW = 32


@dataclass(frozen=True)
class CountKinds:
    """The kind of every atom, and of each kind how many there are, seconds by device, bytes."""

    of: tuple[int, ...]
    counts: tuple[int, ...]
    seconds: tuple[dict[int, float], ...]
    weights: tuple[float, ...]


def kinds_of(line: TaskLine, machines: Sequence[NodeType]) -> CountKinds:
    """Sort the atoms by what they cost and weigh."""
    alike = [
        [d for node in m.nodes for d in node[c]] for m in machines for c in range(len(m.counts))
    ]
    columns = [line.seconds(devices[0]).tolist() for devices in alike]
    bytes_in = line.bytes_in if line.instance.problem.objective.kind == "throughput" else None
    held = (line.weights + (0 if bytes_in is None else bytes_in)).tolist()
    number: dict[tuple[float, ...], int] = {}
    of = []
    for i in range(len(line)):
        key = (held[i], *(column[i] for column in columns))
        of.append(number.setdefault(key, len(number)))
    seconds = tuple(
        {d: s for devices, s in zip(alike, key[1:], strict=True) if s < math.inf for d in devices}
        for key in number
    )
    counts = tuple(of.count(k) for k in range(len(number)))
    return CountKinds(tuple(of), counts, seconds, tuple(key[0] for key in number))


def count_plan(
    line: TaskLine, machines: Sequence[NodeType], kinds: CountKinds, options: Options
) -> dict[tuple[int, int], int] | None:
    """The numbers a(d, k) of a best plan found; None if there is none, or it would be too large."""
    devices = [d for m in machines for node in m.nodes for row in node for d in row]
    kind = line.instance.problem.objective.kind
    if len(devices) > _MOST_DEVICES.get(kind, 0) or len(kinds.counts) > _MOST_KINDS:
        return None
    if not all(kinds.seconds):
        return None  # What a color holds together in one atom, no device can run as a whole.
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    a = {
        (d, k): model.new_int_var(0, count, f"a{d},{k}")
        for k, count in enumerate(kinds.counts)
        for d in kinds.seconds[k]
    }
    for k, count in enumerate(kinds.counts):
        model.add(sum(a[d, k] for d in kinds.seconds[k]) == count)
    for d in devices:
        _add_memory(model, line, kinds, a, d)
    scale = _scale(kinds)
    load: dict[int, cp_model.LinearExpr | int] = dict.fromkeys(devices, 0)
    for (d, k), number in a.items():
        load[d] += math.ceil(kinds.seconds[k][d] * scale) * number
    for machine in machines:
        for c in range(len(machine.counts)):
            for one, other in pairwise([d for node in machine.nodes for d in node[c]]):
                model.add(load[one] >= load[other])
    if kind == "throughput":
        most = model.new_int_var(0, 2**40, "T")
        for d in devices:
            model.add(load[d] <= most)
        model.minimize(most)
    else:
        model.minimize(sum(load.values()))
    work = _WORK if len(devices) <= _FEW else max(_WORK, options.time_limit * _PART)
    budget = CpsatBudget(work, now() + options.wall_limit / 3)
    outcome = run(model, options, budget, linear=2)
    if not outcome.found:
        return None
    return {key: outcome.solver.value(number) for key, number in a.items()}


def _add_memory(
    model: cp_model.CpModel,
    line: TaskLine,
    kinds: CountKinds,
    a: dict[tuple[int, int], cp_model.IntVar],
    d: int,
) -> None:
    limit = line.instance.capacity[d]
    if limit is None:
        return
    unit = max(1.0, limit / _BYTES)
    held = sum(
        math.ceil(weight / unit) * a[d, k] for k, weight in enumerate(kinds.weights) if (d, k) in a
    )
    model.add(held <= math.floor((limit - line.spare) / unit))


def _scale(kinds: CountKinds) -> float:
    """Units a second, such that all loads together stay far below 2^63."""
    total = math.fsum(
        count * max(row.values()) for count, row in zip(kinds.counts, kinds.seconds, strict=True)
    )
    return _UNITS / total if total > 0 else 1.0


def realise(line: TaskLine, kinds: CountKinds, plan: dict[tuple[int, int], int]) -> list[int]:
    """The device of every atom (see the head of this file)."""
    left = dict(plan)
    nodes = [device.node for device in line.instance.problem.platform.devices]
    homes: list[int] = []
    here = -1
    for i, k in enumerate(kinds.of):
        if left.get((here, k), 0) == 0:
            able = [d for d in sorted(kinds.seconds[k]) if left[d, k] > 0]
            at = nodes[here] if here >= 0 else None
            here = min(able, key=lambda d: (-_row(kinds, left, i, d), nodes[d] != at, d))
        left[here, k] -= 1
        homes.append(here)
    return homes


def _row(kinds: CountKinds, left: dict[tuple[int, int], int], i: int, d: int) -> int:
    """How many atoms from `i` on device `d` can take in a row."""
    taken: dict[int, int] = {}
    for length, k in enumerate(kinds.of[i:]):
        taken[k] = taken.get(k, 0) + 1
        if taken[k] > left.get((d, k), 0):
            return length
    return len(kinds.of) - i
