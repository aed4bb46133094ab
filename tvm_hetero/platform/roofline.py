"""The roofline: the least time that a piece of work takes on a device of known figures.

With F floating-point operations and B bytes of memory traffic, and P, W and L the peak rate,
memory bandwidth and launch overhead of a device, one execution takes

    L + max(F / (e P), B / W)

seconds (S. Williams, A. Waterman, D. Patterson: Roofline, CACM 52(4), 2009,
doi:10.1145/1498765.1498785). The share e of the peak that a kind of work reaches is 1 where nothing
better is known: then this is a lower bound that good kernels come near. It knows nothing of caches,
shapes or how well a kernel is written.
"""

from __future__ import annotations

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.devices import Device


def roofline(flops: float, nbytes: float, device: Device, efficiency: float = 1.0) -> float:
    """Seconds that `flops` operations on `nbytes` bytes take on `device`.

    Raises
    ------
    PlatformError
        If the device has no `peak_flops` or no `bandwidth`, or one that is not above 0.
    """
    peak = figure(device, "peak_flops", "flop/s, such as 1.0e12")
    bandwidth = figure(device, "bandwidth", "bytes/s, such as 100GB/s")
    return (device.launch or 0.0) + max(flops / (peak * efficiency), nbytes / bandwidth)


def computes(device: Device) -> bool:
    """Whether a device runs anything: it has a target or one of the figures of the model.

    One that has neither (a host's memory, a switch) is a stop for tensors.
    """
    figures = (device.peak_flops, device.bandwidth, device.launch)
    return device.target is not None or any(value is not None for value in figures)


def figure(device: Device, key: str, example: str) -> float:
    """A figure of the device that has to be there and above 0 (see `roofline`)."""
    value: float | None = getattr(device, key)
    if value is None or value <= 0:
        state = "no" if value is None else f"a {key} of {value:g} instead of a positive"
        raise PlatformError(
            f"device {device.name!r} has {state} {key}, which the analytical cost model needs; "
            f"add {key} ({example}) to the device, or use the profiled cost model"
        )
    return value
