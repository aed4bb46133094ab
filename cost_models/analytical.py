"""Roofline costs from a platform's figures: what a device that is not here would take.

The formula, and what it leaves out, is in `tvm_hetero.platform.roofline`; every kernel is taken to
reach the peak.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.cost_models.protocol import Costs, Progress, require_a_device
from tvm_hetero.errors import PlatformError
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.platform.roofline import computes, roofline
from tvm_hetero.problem.cost import Cost
from tvm_hetero.util.quote import quote


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
            If a compute device lacks a figure, or can do some kinds of work only: of which kind a
            kernel is nobody says. Names the device.
        ProfileError
            If the platform has no compute device.
        """
        devices = [device for device in platform.devices if computes(device)]
        _refuse_units(devices)
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


def _refuse_units(devices: Sequence[Device]) -> None:
    """Refuse devices of which only the zoo's problems know what they can run."""
    for device in devices:
        if device.units is not None:
            raise PlatformError(
                f"device {quote(device.name)} can do only {', '.join(device.units.work)} (its "
                "units), and of which kind a kernel of a model is the analytical cost model does "
                "not know; leave it out of the platform, or write its costs into the problem"
            )
