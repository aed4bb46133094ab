"""What every cost model is: kernels and a platform in, seconds per kernel and device out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tvm_hetero.errors import ProfileError
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.implementation_choice import Choice
from tvm_hetero.problem.model import Problem

if TYPE_CHECKING:
    from tvm import IRModule

# Told at every step: what is being done ("measure on cpu0"), how many are done, of how many.
Progress = Callable[[str, int, int], None]
Costs = dict[str, dict[str, Cost]]


class CostModel(Protocol):
    """Something that knows what kernels cost."""

    @property
    def name(self) -> str:
        """The name by which `by_name` finds it."""
        ...

    def costs(
        self,
        kernels: Sequence[Kernel],
        platform: Platform,
        progress: Progress | None = None,
    ) -> Costs:
        """What one call of each kernel costs: kernel name -> device name -> `Cost`.

        A device that cannot run a kernel is left out of the kernel's row.

        Raises
        ------
        ProfileError
            If no device can run a kernel.
        """
        ...


@runtime_checkable
class MeasuringCostModel(CostModel, Protocol):
    """A cost model that runs kernels on the devices themselves, which have to be reached for it.

    So links that the platform leaves open are measured beside it, and it knows in which way each
    kernel was the fastest. Its `costs` are those of kernels alone, on devices that are idle else.
    """

    @property
    def in_place(self) -> bool:
        """Whether `refine` goes on to measure in the whole network."""
        ...

    def with_links(self, platform: Platform) -> Platform:
        """The platform, links between devices of one node measured where it has none."""
        ...

    def choices(self) -> tuple[Choice, ...]:
        """How each kernel of the last `costs` is computed on each device."""
        ...

    def traces(self) -> Mapping[str, Mapping[str, str]]:
        """Of tuned schedules among the choices: kernel -> device -> trace."""
        ...

    def refine(
        self, module: IRModule, problem: Problem, progress: Progress | None = None
    ) -> Problem:
        """A problem with costs as they are in the whole network; `module` has the choices."""
        ...


def require_a_device(costs: Mapping[str, Mapping[str, Cost]], reasons: Mapping[str, str]) -> None:
    """Refuse costs in which some kernel has no device at all; `reasons` say why it has none."""
    for kernel, row in costs.items():
        if not row:
            why = reasons.get(kernel, "no device of the platform runs kernels")
            raise ProfileError(f"kernel {kernel!r} has a cost on no device: {why}")
