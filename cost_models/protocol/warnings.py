"""What a cost model says when it leaves something out: a warning that names kernel and device."""

from __future__ import annotations

import warnings


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
