"""Costs of a size that was not measured, from those of sizes that were.

A kernel of one size has a sister in each other size: the kernel of the same name, which says what
was fused and at which place of the network. (Its weights may have another size, where a map of the
picture was folded into them.) With x the roofline's time of a kernel
(`tvm_hetero.platform.roofline`) and (x_i, t_i) those of its sisters in the measured sizes,

    t = x r(x),   r(x_i) = t_i / x_i,   r linear in log x between sisters, constant beyond them

as `tvm_hetero.cost_models.quick` has it of the kernels of one rule. x says how work grows with the
size, however many dimensions are open; r what a kernel reaches of it, which changes little from one
size to the next. Kernels without a sister (another size may be fused otherwise) are asked of
another cost model. The result is an estimate, and whoever uses it says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.artifact.executable import INTERPOLATED
from tvm_hetero.cost_models.protocol import CostModel, Costs, Progress
from tvm_hetero.cost_models.quick import RuleScale, with_figures
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.platform.roofline import roofline
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Task
from tvm_hetero.problem.model import Problem

# No kernel does less than nothing.
_LEAST = 1e-12


class InterpolatedCosts:
    """Costs between those of other sizes of one model.

    Attributes
    ----------
    measured : the problems of the sizes that were measured, on the same platform.
    others : asked for kernels that none of them has.
    """

    name = INTERPOLATED

    def __init__(self, measured: Sequence[Problem], others: CostModel) -> None:
        self.measured = tuple(measured)
        self.others = others
        self._sisters = [{task.op: task for task in problem.tasks} for problem in self.measured]

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, progress: Progress | None = None
    ) -> Costs:
        """Costs of every kernel on every device on which a sister has one; see the file's text.

        Raises
        ------
        ProfileError
            As the other cost model, of kernels without a sister.
        """
        found: Costs = {}
        for done, kernel in enumerate(kernels, start=1):
            found[kernel.name] = self._between(kernel, platform)
            if progress is not None:
                progress("interpolate", done, len(kernels))
        lost = [kernel for kernel in kernels if not found[kernel.name]]
        return found | (self.others.costs(lost, platform, progress) if lost else {})

    def _between(self, kernel: Kernel, platform: Platform) -> dict[str, Cost]:
        """What a kernel costs on each device; nothing if it has no sister."""
        row = {}
        for device in platform.devices:
            times = self._times(kernel, device)
            if times:
                x = _roof(kernel, device)
                row[device.name] = Cost(((1, RuleScale.of(times).seconds(x)),))
        return row

    def _times(self, kernel: Kernel, device: Device) -> dict[float, float]:
        """Seconds of a kernel's sisters on a device by the roofline's."""
        times: dict[float, float] = {}
        for problem, sisters in zip(self.measured, self._sisters, strict=True):
            task = sisters.get(kernel.name)
            cost = None if task is None else problem.costs[task.id].get(device.name)
            if task is not None and cost is not None:
                x, seconds = _roof(task, device), cost.seconds(1)
                times[x] = min(seconds, times.get(x, math.inf))
        return times


def _roof(work: Kernel | Task, device: Device) -> float:
    return max(roofline(work.flops, work.bytes, with_figures(device)), _LEAST)
