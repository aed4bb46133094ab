"""What an executor takes and what it is doing meanwhile, measured in C++.

Runs for measurements are on inputs that are set once, and are timed where they run, so that Python
takes no part in them. What is measured of a run (when each step began and ended, how long its
worker waited, each kernel's time) is kept of the run that ended last, until the next one.

All this is for one thread while no other runs; a second one is refused in C++.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_hetero.errors import RunError
from tvm_hetero.executor import spans
from tvm_hetero.executor.inputs import InputReader, random_values
from tvm_hetero.executor.plan_switch import PlanSwitch
from tvm_hetero.executor.native import NativeExecutor
from tvm_hetero.executor.native_calls import blocks_shutdown
from tvm_hetero.executor.spans import KernelTime, TracedStep
from tvm_hetero.executor.state import State, StateRows
from tvm_hetero.executor.streaming import steady_seconds
from tvm_hetero.executor.watching import WatchedRequests, watched_requests
from tvm_hetero.plan.model import Plan
from tvm_hetero.problem.model import Problem

# Inputs by name, or for a batch also a mapping for each element.
Inputs = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Measured:
    """The half of `tvm_hetero.executor.executor.Executor` that measures."""

    def __init__(self, problem: Problem, plans: PlanSwitch) -> None:
        self.problem = problem
        self._plans = plans
        plan = self.plan
        self._reader = InputReader(plan)
        self.inputs = self._reader.infos
        self._state_rows = StateRows(plan)
        self.states = self._state_rows.names
        self._measured_state: State | None = None
        self._check_numerics = self._profile_kernels = False
        self._watched = 0

    @property
    def plan(self) -> Plan:
        """The plan that takes what comes."""
        return self._native.plan

    @property
    def _native(self) -> NativeExecutor:
        return self._plans.current.native

    @property
    def allocations(self) -> int:
        """How many tensors were allocated for steps since loading: none in the steady state."""
        return self._native.allocations()

    @property
    def check_numerics(self) -> bool:
        """Whether each kernel's outputs are looked at: values that are not finite are errors."""
        return self._check_numerics

    @check_numerics.setter
    def check_numerics(self, on: bool) -> None:
        self._check_numerics = bool(on)
        self._native.check_numerics(self._check_numerics)

    @property
    def profile_kernels(self) -> bool:
        """Whether each kernel is timed, for `kernel_times`."""
        return self._profile_kernels

    @profile_kernels.setter
    def profile_kernels(self, on: bool) -> None:
        self._profile_kernels = bool(on)
        self._native.profile_kernels(self._profile_kernels)

    def watch(self, requests: int) -> None:
        """Keep what each step of so many requests takes, for `take_watched`; 0: none any more.

        Unlike what else is here this is for while others run: it takes some microseconds a step. Of
        more requests than there is room for, the oldest go; so do those that are not taken before
        a `switch`.
        """
        self._native.watch(requests)  # refuses what is no number of requests
        self._watched = requests
        self._native.watch(requests)  # where a switch has come in between

    def _apply_settings(self, executor: NativeExecutor) -> None:
        """Let another plan's executor measure as the one before it."""
        executor.check_numerics(self._check_numerics)
        executor.profile_kernels(self._profile_kernels)
        executor.watch(self._watched)

    def take_watched(self) -> WatchedRequests:
        """The requests that have ended and have not been taken yet, by the plan that runs."""
        executor = self._native
        return watched_requests(executor.plan, executor.take_watched())

    def kernel_times(self) -> list[KernelTime]:
        """What each kernel took in the last run while `profile_kernels` was on."""
        return spans.kernel_times(self.plan, self._native.kernel_times())

    def trace(self) -> list[TracedStep]:
        """When each step of the last run (or of a batch of `throughput`) began and ended."""
        return spans.traced_steps(
            self.plan,
            self.problem,
            self._native.trace(),
            self._native.waits(),
            self._native.run_by(),
        )

    @blocks_shutdown
    def set_inputs(self, values: Inputs) -> None:
        """Set the inputs of `benchmark` and `throughput` (see `run`), until the next call.

        A model with state works on one that is kept for measuring: what is in it means nothing,
        since the runs of a pipeline share it.
        """
        tensors = self._reader.read(values, copy=True).tensors
        if self.states and self._measured_state is None:
            self._measured_state = self.new_state()
        self._state_rows.place(tensors, self._measured_state)
        for i, tensor in enumerate(tensors):
            self._native.set_input(i, tensor)

    @blocks_shutdown
    def new_state(self) -> State:
        """A set of the model's states, for all elements of a batch; it begins with zeros.

        Raises
        ------
        RunError
            If there is no memory for it.
        """
        return self._state_rows.new()

    def benchmark(self, values: Inputs, repeat: int = 50, warmup: int = 5) -> list[float]:
        """Seconds of `repeat` runs in a row, after `warmup` that do not count."""
        self.set_inputs(values)
        self._native.run_repeated(warmup)
        return self._native.run_repeated(repeat)

    def throughput(self, values: Inputs, batches: int = 50) -> float:
        """Seconds between two requests in the steady state of a pipeline.

        What comes before and after the steady state does not count: `batches` do (see
        `tvm_hetero.executor.streaming`). All run on the same inputs. Afterwards `trace` tells of
        one.
        """
        self.set_inputs(values)
        return steady_seconds(self._native, batches)

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Seeded standard-normal inputs; integers in the input's range, else from 0 to 9."""
        return random_values(self.inputs, seed)

    def inputs_that_run(self, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Random inputs; where the model refuses them, all integers are 1, or 0.

        For who wants to run a model of which no input is at hand: integers may lead out of a
        table by ways that are not followed (`random_inputs` knows the ranges of plain indices).

        Raises
        ------
        RunError
            As the model refuses the random ones, if it refuses the others, too.
        """
        values = self.random_inputs(seed)
        integers = {i.name for i in self.inputs if "float" not in i.dtype}
        if not integers:
            return values
        try:
            self.benchmark(values, repeat=1, warmup=0)
        except RunError as refused:
            for number in (1, 0):
                plain = {
                    name: np.full_like(value, number) if name in integers else value
                    for name, value in values.items()
                }
                with contextlib.suppress(RunError):
                    self.benchmark(plain, repeat=1, warmup=0)
                    return plain
            raise refused
        return values
