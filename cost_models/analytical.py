"""Roofline costs from a platform's figures: what a device that is not here would take.

With F the floating-point operations and B the bytes of a kernel, and P, W and L the peak rate,
memory bandwidth and launch overhead of a device, one call takes

    L + max(F / P, B / W)

seconds (S. Williams, A. Waterman, D. Patterson: Roofline, CACM 52(4), 2009,
doi:10.1145/1498765.1498785). It is a lower bound that good kernels come near; it knows nothing
of caches, shapes or how well a kernel is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.cost_models.protocol import Costs, Kernel, Progress, require_a_device
from tvm_hetero.errors import PlatformError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost


class AnalyticalCosts:
    """Roofline model. Every compute device needs `peak_flops` and `bandwidth`; `launch` is 0
    where it is not given.
    """

    name = "analytical"

    def costs(
        self,
        kernels: Sequence[Kernel],
        platform: Platform,
        progress: Progress | None = None,
    ) -> Costs:
        """Costs on every device that has a target or any of the figures.

        A device with neither (a host's memory, a switch) is a stop for tensors and runs nothing.

        Raises
        ------
        PlatformError
            If a compute device lacks a figure; names the device and the key.
        ProfileError
            If the platform has no compute device.
        """
        devices = [device for device in platform.devices if _computes(device)]
        result = {
            kernel.name: {
                device.name: Cost(((1, roofline(kernel.flops, kernel.bytes, device)),))
                for device in devices
            }
            for kernel in kernels
        }
        require_a_device(result, {})
        if progress is not None:
            progress("compute costs", len(kernels), len(kernels))
        return result


def roofline(flops: float, nbytes: float, device: Device) -> float:
    """Seconds that `flops` operations on `nbytes` bytes take on `device` at best.

    Raises
    ------
    PlatformError
        If the device has no `peak_flops` or no `bandwidth`, or one that is not above 0.
    """
    arithmetic = flops / _figure(device, "peak_flops", "flop/s, such as 1.0e12")
    traffic = nbytes / _figure(device, "bandwidth", "bytes/s, such as 100GB/s")
    return (device.launch or 0.0) + max(arithmetic, traffic)


def _computes(device: Device) -> bool:
    figures = (device.peak_flops, device.bandwidth, device.launch)
    return device.target is not None or any(figure is not None for figure in figures)


def _figure(device: Device, key: str, example: str) -> float:
    value: float | None = getattr(device, key)
    if value is None or value <= 0:
        state = "no" if value is None else f"a {key} of {value:g} instead of a positive"
        raise PlatformError(
            f"device {device.name!r} has {state} {key}, which the analytical cost model needs; "
            f"add {key} ({example}) to the device, or use the profiled cost model"
        )
    return value
