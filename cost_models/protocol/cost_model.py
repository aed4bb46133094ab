"""What every cost model is: kernels and a platform in, seconds per kernel and device out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tvm_hetero.errors import ProfileError
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Cost

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


def require_a_device(costs: Mapping[str, Mapping[str, Cost]], reasons: Mapping[str, str]) -> None:
    """Refuse costs in which some kernel has no device at all; `reasons` say why it has none."""
    for kernel, row in costs.items():
        if not row:
            why = reasons.get(kernel, "no device of the platform runs kernels")
            raise ProfileError(f"kernel {kernel!r} has a cost on no device: {why}")
