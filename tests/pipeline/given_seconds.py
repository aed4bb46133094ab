"""A cost model that says it has measured what a test gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_hetero.cost_models.protocol import Costs, Progress
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Problem
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.implementation_choice import Choice, Timing


class GivenSeconds:
    """Seconds of a kernel on any device, by a function."""

    in_place = False
    name = "given"

    def __init__(self, seconds: Callable[[Kernel], float]) -> None:
        self.seconds = seconds
        self._choices: tuple[Choice, ...] = ()

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, progress: Progress | None = None
    ) -> Costs:
        self._choices = tuple(
            Choice(kernel.name, device, "a rule", "rule", {"rule": Timing(self.seconds(kernel))})
            for kernel in kernels
            for device in platform.names
        )
        found: Costs = {kernel.name: {} for kernel in kernels}
        for choice in self._choices:
            cost = Cost(((1, choice.times["rule"].seconds),))
            found[choice.kernel][choice.device] = cost
        return found

    def with_links(self, platform: Platform) -> Platform:
        return platform

    def choices(self) -> tuple[Choice, ...]:
        return self._choices

    def traces(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def refine(self, module: Any, problem: Problem, progress: Progress | None = None) -> Problem:
        return problem
