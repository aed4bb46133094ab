"""What profiling found out, before it becomes costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tvm_hetero.cost_models.protocol import Costs
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import Device
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.implementation_choice import Choice


@dataclass
class Profile:
    """What was found out about some kernels on some devices.

    Attributes
    ----------
    choices : of each kernel on each device that can run it, in order.
    traces : kernel -> device -> the trace, where the choice is a tuned schedule.
    reasons : why a kernel is left out somewhere.
    call_seconds : of boards that are reached by RPC, what calling a kernel there takes beside it.
    seconds : what each step took, wall time: schedule, compile, measure, compare.
    runs : measurements that were really made, for those who want to know.
    """

    choices: dict[tuple[str, str], Choice] = field(default_factory=dict)
    traces: dict[str, dict[str, str]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    call_seconds: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    runs: int = 0

    def costs(self, kernels: Sequence[Kernel], devices: Sequence[Device]) -> Costs:
        """The costs of the chosen implementations."""
        costs: Costs = {kernel.name: {} for kernel in kernels}
        for kernel in kernels:
            for device in devices:
                choice = self.choices.get((kernel.name, device.name))
                if choice is not None and choice.timing is not None:
                    seconds = choice.timing.seconds + self.call_seconds.get(device.name, 0.0)
                    points = ((1, seconds),)
                    costs[kernel.name][device.name] = Cost(points, choice.implementation)
        return costs

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time that the body takes to that of a step."""
        start = time.perf_counter()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - start
