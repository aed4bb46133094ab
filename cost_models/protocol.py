"""What every cost model is: kernels and a platform in, seconds per kernel and device out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tvm_hetero.errors import ProfileError
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost

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


class ProfileWarning(UserWarning):
    """A kernel, or one way to compute it, was left out of a device's costs; the text names kernel
    and device and says why.
    """


def left_out(kernel: str, device: str, reason: str) -> None:
    """Warn that `kernel` has no cost on `device`."""
    text = f"kernel {kernel!r} on device {device!r}: {reason}; the device is left out for it"
    warnings.warn(text, ProfileWarning, stacklevel=2)


def refused(kernel: str, device: str, implementation: str, reason: str) -> None:
    """Warn that an implementation of `kernel` is not used on `device`; another one is."""
    text = f"kernel {kernel!r} on device {device!r}: {implementation} is refused, {reason}"
    warnings.warn(text, ProfileWarning, stacklevel=2)


def not_in_place(device: str, reason: str) -> None:
    """Warn that a whole network could not be measured on `device`."""
    text = (
        f"device {device!r}: the whole network cannot be run there, so its costs are those of "
        f"kernels alone: {reason}"
    )
    warnings.warn(text, ProfileWarning, stacklevel=2)


def not_at_once(elements: int, device: str, reason: str) -> None:
    """Warn that kernels for several elements at once could not be tried on `device`."""
    text = (
        f"device {device!r}: kernels that compute {elements} elements at once are not used, since "
        f"the network could not be run with them: {reason:.300}"
    )
    warnings.warn(text, ProfileWarning, stacklevel=2)


def require_a_device(costs: Mapping[str, Mapping[str, Cost]], reasons: Mapping[str, str]) -> None:
    """Refuse costs in which some kernel has no device at all; `reasons` say why it has none."""
    for kernel, row in costs.items():
        if not row:
            why = reasons.get(kernel, "no device of the platform runs kernels")
            raise ProfileError(f"kernel {kernel!r} has a cost on no device: {why}")
