"""Bottleneck stages by dynamic programming over a family of ideals.

Notation as in `tvm_hetero.views.ideals`; kinds of interchangeable devices are counted, not named.

    f(u, I) = least largest load of stages that make up ideal I on u = (u1, u2, ...) devices
    f(0, 0) = 0
    f(u + e_k, I) = min over I' < I of  max(f(u, I'), load_k(I - I'))                  -> `run`

Over all ideals this is the algorithm of J. Tarnawski, A. Phanishayee, N. Devanur, D. Mahajan and
F. Nina Paravecino: Efficient algorithms for device placement of DNN graph operators, NeurIPS 2020
(arXiv:2006.16423), with heterogeneous devices in any order and our loads; over the prefixes of one
order it is their linearised version (DPL). Loads are lower bounds of the true ones, so the value
over all ideals is a bound of the problem, and the plan is valued again, exactly (`best_plan`).

Where there are many ways u to use the devices, or many ideals and nothing but work to count,
`device_sets` answers without this table, sooner by far.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from tvm_hetero.errors import SolverError, UsageError
from tvm_hetero.problem.model import Problem
from tvm_hetero.solvers.stage_dp.device_sets import SAME, least
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.array_types import FloatArray, IntArray
from tvm_hetero.views.ideals import IdealFamily, place_terminals
from tvm_hetero.views.instance import Instance

# Ways to use the devices from which on sets of them (`device_sets`) are quicker than the table.
_FEW_WAYS = 32
# Ideals from which on they are quicker whatever the ways, as not all stages have to be looked at.
_FEW_IDEALS = 500
# Sums of n floats are off by less than n 1e-16 of the largest, and loads this close are one.
_ROUNDING = 1e-12 + 2 * SAME


@dataclass(frozen=True)
class StageChain:
    """The best chain of ideals: its value, and (kind, first and last ideal) of its stages."""

    value: float
    stages: tuple[tuple[int, int, int], ...]

    def bound(self, family: IdealFamily) -> float:
        """What the value proves where `family` holds all ideals, s."""
        if self.value == math.inf:
            return 0.0
        noise = float(family.work[-1].max()) + float(family.arrive.sum() + family.leave.sum())
        return max(0.0, self.value - _ROUNDING * noise)


class StageTable:
    """f and, for every state, from which ideal and with which kind of device it was reached."""

    def __init__(self, family: IdealFamily) -> None:
        sizes = [len(kind.devices) + 1 for kind in family.kinds]
        count = math.prod(sizes)
        self.counts = np.array(list(itertools.product(*(range(size) for size in sizes))))
        self.strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        self.sizes = sizes
        self.value = np.full((count, len(family)), np.inf)
        self.value[0, 0] = 0.0
        self.origin = np.zeros((count, len(family)), dtype=np.int32)
        self.kind = np.zeros((count, len(family)), dtype=np.int16)

    def extend(self, i: int, later: IntArray, loads: FloatArray) -> None:
        """Add one stage behind ideal `i`."""
        for k, stride in enumerate(self.strides):
            source = (self.counts[:, k] + 1 < self.sizes[k]) & np.isfinite(self.value[:, i])
            open_ = np.isfinite(loads[k])
            if not source.any() or not open_.any():
                continue
            states = np.flatnonzero(source)
            where = np.ix_(states + stride, later[open_])
            new = np.maximum(self.value[states, i][:, None], loads[k][open_][None, :])
            better = new < self.value[where]
            self.value[where] = np.where(better, new, self.value[where])
            self.origin[where] = np.where(better, i, self.origin[where])
            self.kind[where] = np.where(better, k, self.kind[where])

    def best(self) -> StageChain:
        """The best chain to the last ideal; among equals one with the fewest devices."""
        last = self.value.shape[1] - 1
        used = self.counts.sum(axis=1)
        state = min(range(len(used)), key=lambda u: (self.value[u, last], used[u], u))
        value = float(self.value[state, last])
        stages = []
        while last > 0 and value < math.inf:
            kind, before = int(self.kind[state, last]), int(self.origin[state, last])
            stages.append((kind, before, last))
            state, last = state - self.strides[kind], before
        return StageChain(value, tuple(reversed(stages)))


def run(family: IdealFamily, most: float = math.inf, deadline: float = math.inf) -> StageChain:
    """The best chain of ideals with a value of at most `most` (s); value inf if there is none.

    Parameters
    ----------
    deadline : of `now`.

    Raises
    ------
    SolverError
        If there are too many states, or the time is up.
    """
    ways = math.prod(len(kind.devices) + 1 for kind in family.kinds)
    if ways > _FEW_WAYS or (family.additive and len(family) > _FEW_IDEALS):
        return StageChain(*least(family, most, deadline))
    table = StageTable(family)
    for i in range(len(family) - 1):
        if now() > deadline:
            raise SolverError("stages: no time is left to join stages")
        if np.isfinite(table.value[:, i]).any():
            table.extend(i, *family.row(i, most))
    return table.best()


def check_kind(problem: Problem, solver: str) -> None:
    """Refuse an objective that stages do not serve.

    Raises
    ------
    UsageError
        If it is not throughput.
    """
    kind = problem.objective.kind
    if kind != "throughput":
        raise UsageError(f"{solver} serves throughput, not {kind}; use solver auto")


def placement_of(family: IdealFamily, chain: StageChain) -> list[int]:
    """The device of every part, devices of a kind in the order of the platform."""
    placement = [-1] * len(family.instance)
    free = [list(kind.devices) for kind in family.kinds]
    for kind, before, last in chain.stages:
        device = free[kind].pop(0)
        for b in np.flatnonzero(family.ideals[last] & ~family.ideals[before]):
            for v in family.blocks.members[b]:
                placement[v] = device
    place_terminals(family.instance, placement)
    return placement


def best_plan(
    instance: Instance, family: IdealFamily, most: float, deadline: float = math.inf
) -> tuple[list[int] | None, StageChain]:
    """The plan of the best chain if it is valid (routes, memory), and the chain itself.

    `most` is a value that is known already; with rounding room, so that it can be met again.
    `deadline` is one of `now`; past it, as with too many states, `SolverError`.
    """
    chain = run(family, most * (1 + 1e-9), deadline)
    if chain.value == math.inf:
        return None, chain
    placement = placement_of(family, chain)
    return (placement if exact_value(instance, placement) < math.inf else None), chain
