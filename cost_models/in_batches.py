"""What several elements of a batch cost where a kernel computes them at once.

An execution of n elements of a task may be n calls of its kernel, each of which reads the task's
weights, or fewer calls of kernels that compute several elements and read weights once
(`tvm_hetero.kernels.batched`). The second is worth it where weights are what takes the time, and
loses elsewhere: the activations of several elements leave the caches. So it is measured, in place
(`tvm_hetero.cost_models.in_place`): the whole network is run with n elements, once with every
*candidate* computing n at once (`at_once`), and in turns with that with every task an element a
time (`apart`). The second says what the candidate has to beat, for its weights may still be in a
cache when the next element comes.

candidates    tasks with `LEAST_WEIGHTS` on a CPU device whose kernel `batched` can do it for
sizes         `SIZES`, up to the batch
kept          a size whose call beats by more than `MARGIN` the calls of smaller sizes that are
              kept, and the same elements apart
table         seconds(n) = sum of the calls of n elements: the largest that fit, one after the other
              (`Cost.calls_of`). Sizes are powers of two and each beats what it is composed of, so
              no other way to divide n takes less.

The table is exact up to `EXACT` elements; beyond, at the batch and at multiples of the largest size
kept, and linear between them. Points that lie on the line through their neighbours are left out.
Tables fall here and there: with kernels for 1 and 4 elements, 3 may take longer than 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tvm_hetero.cost_models.alike import Seconds
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.problem import Cost, Problem

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.cost_models.protocol import Kernel

SIZES = (2, 4, 8)
LEAST_WEIGHTS = 256 << 10
MARGIN = 0.02
EXACT = 16


@dataclass(frozen=True)
class Together:
    """What some elements of each candidate take: in one call, and apart in as many calls."""

    at_once: Seconds
    apart: Seconds

    def of(self, task: str, device: str) -> tuple[float, float] | None:
        """Both for one task on one device, None where it is no candidate there."""
        if device not in self.at_once.get(task, {}):
            return None
        return self.at_once[task][device], self.apart[task][device]


def candidates(mod: tvm.IRModule, problem: Problem, size: int) -> dict[str, frozenset[str]]:
    """For every CPU device the tasks of a lowered module that may compute `size` at once."""
    tasks = extract_tasks(mod)
    heavy = [task.id for task in tasks.graph.tasks if task.weight_bytes >= LEAST_WEIGHTS]
    kernels = {kernel.name: kernel for kernel in tasks.kernels}
    names = {tasks.kernel_of[task] for task in heavy}
    able = {name for name in names if _can_be_batched(kernels[name], size)}
    found = [task for task in heavy if tasks.kernel_of[task] in able]
    return {
        device.name: frozenset(task for task in found if device.name in problem.costs[task])
        for device in problem.platform.devices
        if device.kind == "llvm"
    }


def _can_be_batched(kernel: Kernel, size: int) -> bool:
    """Whether there is a kernel for `size` elements of this one."""
    from tvm_hetero.kernels.batched import batched

    try:
        batched(kernel.func, size, kernel.constants)
    except ValueError:
        return False
    return True


def with_sizes(
    cost: Cost, single: float, measured: Mapping[int, tuple[float, float]], batch: int
) -> Cost:
    """The cost of a task for every number of elements up to `batch`.

    Parameters
    ----------
    cost : says how the task is computed.
    single : s for one element.
    measured : for each size that was measured the seconds of one call, and of the same elements
        apart.
    """
    calls = {1: single}
    for size in sorted(size for size in measured if size <= batch):
        at_once, apart = measured[size]
        smaller = replace(cost, sizes=tuple(calls)).calls_of(size)
        others = math.fsum(calls[each] for each in smaller)
        if at_once * (1 + MARGIN) < min(others, apart):
            calls[size] = at_once
    cost = replace(cost, sizes=tuple(calls))
    if len(calls) == 1:
        return replace(cost, points=((1, single),))
    table = [
        (n, math.fsum(calls[each] for each in cost.calls_of(n)))
        for n in _numbers(max(calls), batch)
    ]
    return replace(cost, points=_thinned(table))


def _numbers(largest: int, batch: int) -> list[int]:
    """For how many elements there is a point in a table."""
    # Those between lie on one line, for `EXACT` is a multiple of every size.
    return sorted({*range(1, min(batch, EXACT) + 1), batch - batch % largest, batch})


def _thinned(table: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """The table without points that its neighbours say the same of."""
    kept = table[:1]
    for point, after in pairwise(table[1:]):
        line = Cost((kept[-1], after)).seconds(point[0])
        if not math.isclose(line, point[1], rel_tol=1e-9):
            kept.append(point)
    return (*kept, *table[1:][-1:])
