"""What candidates are worth: by the C++ decoder for times, by loads for throughput.

A score is (excess, value, tie), less is better: first by how much memory, latency limit, links or
contiguous stages are not kept (0 where they are), then the objective, then the squares of the
loads, so that a search for throughput sees where the busiest device does not change.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tvm_hetero.errors import PlatformError
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.solvers.native import library as native
from tvm_hetero.solvers.search.encoding import EncodedSchedule
from tvm_hetero.solvers.timing.device_loads import Loads, is_pipeline
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.solvers.timing.timing import make_plan, to_schedule
from tvm_hetero.views.instance import Instance

Score = tuple[float, float, float]


class Scorer(Protocol):
    """Scores candidates and writes them out as schedules."""

    def score(self, candidate: EncodedSchedule) -> Score:
        """(excess, value, tie); less is better, excess 0 is valid."""
        ...

    def write(self, candidate: EncodedSchedule, solver: str, seed: int) -> Schedule:
        """The schedule of a valid candidate."""
        ...


def scorer(instance: Instance) -> Scorer:
    """The scorer for the objective of an instance.

    Raises
    ------
    SolverError
        If the C++ library is needed and missing.
    """
    if instance.problem.objective.kind == "throughput":
        return LoadScorer(instance)
    return TimeScorer(instance)


class TimeScorer(native.NativeSearch):
    """Latency, energy and cost: a list schedule in the order of the sequence, nothing inserted."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        n = len(instance)
        self._placement, self._sequence = np.zeros(n, np.int32), np.zeros(self.items, np.int32)
        self._starts, self._ends = np.zeros(n), np.zeros(n)
        self._hops, self._result = (native.HopTimes * 1)(), native.Result()
        self._pointers = [
            array.ctypes.data
            for array in (self._placement, self._sequence, self._starts, self._ends)
        ]

    def score(self, candidate: EncodedSchedule) -> Score:
        """(excess, value, 0)."""
        length = len(candidate.sequence)
        self._placement[:] = candidate.placement
        self._sequence[:length] = candidate.sequence
        placement, sequence, starts, ends = self._pointers
        # No room for hops: they are counted, and left out.
        self._call(
            "decode", self._handle, placement, sequence, length, starts, ends, self._hops, 0,
            ctypes.byref(self._result),
        )  # fmt: skip
        if self._result.value == math.inf:  # a tensor cannot reach a reader
            return math.inf, math.inf, 0.0
        return self._result.excess, self._result.value, 0.0

    def write(self, candidate: EncodedSchedule, solver: str, seed: int) -> Schedule:
        """The decoded times, as they are."""
        problem = self.instance.problem
        decoded = self.decode(candidate.placement, candidate.sequence)
        plan = make_plan(self.instance, candidate.placement)
        starts = [start for start, _ in decoded.keys(plan)]
        return make_schedule(problem, solver, *to_schedule(plan, starts), seed=seed)


class LoadScorer:
    """Throughput: the largest load. Moving from one candidate to the next costs what differs."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.loads = Loads(instance)
        self.contiguous = instance.problem.objective.contiguous
        devices = range(len(instance.names))
        self.connected = all(
            instance.route(j, k, flow) is not None
            for flow in sorted({flow.nbytes for flow in instance.tensors})[:1]
            for j in devices
            for k in devices
        )

    def score(self, candidate: EncodedSchedule) -> Score:
        """(excess, largest load in s, sum of squared loads in s^2)."""
        home = self.loads.home
        for group in self.instance.groups:
            if home[group[0]] != candidate.placement[group[0]]:
                self.loads.move(group, candidate.placement[group[0]])
        if not self.reachable(candidate.placement):
            return math.inf, math.inf, math.inf
        excess = float(self.loads.overflow())
        if self.contiguous and not is_pipeline(self.instance, candidate.placement):
            excess += 1
        profile = self.loads.profile()
        return excess, profile[0], math.fsum(load * load for load in profile)

    def reachable(self, placement: Sequence[int]) -> bool:
        """Whether a way leads from every maker to its readers."""
        if self.connected:
            return True
        try:
            for t in range(len(self.instance.tensors)):
                self.instance.hops(t, placement)
        except PlatformError:
            return False
        return True

    def write(self, candidate: EncodedSchedule, solver: str, seed: int) -> Schedule:
        """One period."""
        executions, copies = write_period(self.instance, candidate.placement)
        return make_schedule(self.instance.problem, solver, executions, copies, seed=seed)
