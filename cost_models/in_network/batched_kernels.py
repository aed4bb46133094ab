"""What several elements of a batch cost where a kernel computes them at once.

An execution of n elements of a task may be n calls of its kernel, each of which reads the task's
weights, or fewer calls of kernels that compute several elements and read weights once
(`tvm_hetero.kernels.tir.batched`). The second is worth it where reading weights is what takes the
time, and loses elsewhere: the activations of several elements leave the caches. So it is measured,
in place (`tvm_hetero.cost_models.in_network.costs`): the whole network is run with n elements, once
with every
*candidate* computing n at once (`at_once`), and in turns with that with every task an element a
time (`apart`). The second says what there is to beat: weights that one element has read are often
in some cache still when the next one comes, and the kernel of one element is what tuning was for.
With fewer elements than the most that were tried, `apart` is not run but taken from there: the
first element reads its weights from memory, all later ones take equally long.

candidates    tasks with `LEAST_WEIGHTS` on a CPU device that read them fast (a tenth of what the
              fastest of them does, `SHARE`: else reading cannot be what takes their time), and
              whose kernel `batch_kernel` can do it for; not those that look something up in a table
sizes         `SIZES` up to the batch, the largest first: what does not pay there by more than
              `MARGIN`, on no device, is not tried with fewer elements
kept          of the sizes that pay, those whose call also beats the calls of smaller ones
table         seconds(n) = sum of the calls of n elements: the largest that fit, one after the other
              (`Cost.calls_of`). Sizes are powers of two and each beats what it is composed of, so
              no other way to divide n takes less.

The table is exact up to `EXACT` elements; beyond, at the batch and at multiples of the largest size
kept, and linear between them. Points that lie on the line through their neighbours are left out.
Tables fall here and there: with kernels for 1 and 4 elements, 3 may take longer than 4.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from tvm_hetero.kernels.tir.gathers import find_gathered
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.equivalent_devices import Seconds
from tvm_hetero.problem.graph import Task
from tvm_hetero.problem.model import Problem

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.passes.kernel import Kernel

SIZES = (2, 4, 8)
# Fewer stay in the first caches from one element to the next, and take little time in all. More may
# stay in the second one, but codes of few bits are made floats once for all elements.
LEAST_WEIGHTS = 1 << 17
SHARE = 0.1
MARGIN = 0.02
EXACT = 16
# No task takes less, s.
_TICK = 1e-9


@dataclass(frozen=True)
class Together:
    """What some elements of each candidate take: in one call, and apart in as many calls."""

    at_once: Seconds
    apart: Seconds

    def of(self, task: str, device: str) -> tuple[float, float] | None:
        """Both for one task on one device, None where they were not measured."""
        rows = [seconds.get(task, {}) for seconds in (self.at_once, self.apart)]
        if not all(device in row for row in rows):
            return None
        return rows[0][device], rows[1][device]

    def apart_with(self, size: int, most: int, single: Seconds) -> Seconds:
        """What `size` elements take apart if these are of `most`, and one takes `single`."""
        share = (size - 1) / (most - 1)
        return {
            task: {
                device: single[task][device] + (seconds - single[task][device]) * share
                for device, seconds in row.items()
            }
            for task, row in self.apart.items()
        }

    @property
    def paying(self) -> frozenset[str]:
        """The tasks that gain on some device by being computed at once."""
        pairs = {
            task: [self.of(task, device) for device in row] for task, row in self.at_once.items()
        }
        return frozenset(
            task for task, own in pairs.items() if any(pair and _pays(*pair) for pair in own)
        )


def find_batchable(mod: tvm.IRModule, problem: Problem) -> frozenset[str]:
    """The tasks of a lowered module that may compute several elements at once."""
    tasks = extract_tasks(mod)
    kernels = {kernel.name: kernel for kernel in tasks.kernels}
    readers = {name for name, kernel in kernels.items() if _reads_weights(kernel)}
    speeds = {
        task.id: _speed(task, problem)
        for task in tasks.graph.tasks
        if tasks.kernel_of[task.id] in readers
    }
    least = SHARE * max(speeds.values(), default=0.0)
    heavy = [task for task, speed in speeds.items() if speed > 0 and speed >= least]
    names = {tasks.kernel_of[task] for task in heavy}
    able = {name for name in names if _can_be_batched(kernels[name])}
    return frozenset(task for task in heavy if tasks.kernel_of[task] in able)


def _reads_weights(kernel: Kernel) -> bool:
    """Whether a kernel reads its weights, and does not look something up in them."""
    return not find_gathered(kernel.func).intersection(kernel.constants)


def _speed(task: Task, problem: Problem) -> float:
    """Bytes of weights that a task reads in a second on a CPU device; 0 if it has few."""
    costs = problem.costs[task.id]
    seconds = [costs[name].seconds(1) for name in _cpus(problem) if name in costs]
    if task.weight_bytes < LEAST_WEIGHTS or not seconds:
        return 0.0
    return task.weight_bytes / max(min(seconds), _TICK)


def on_devices(tasks: Collection[str], problem: Problem) -> dict[str, frozenset[str]]:
    """For every CPU device those of the tasks that it can run."""
    return {
        device: frozenset(task for task in tasks if device in problem.costs[task])
        for device in problem.platform.names
        if device in _cpus(problem)
    }


def _cpus(problem: Problem) -> frozenset[str]:
    return frozenset(row.name for row in problem.platform.devices if row.kind == "llvm")


def _can_be_batched(kernel: Kernel) -> bool:
    """Whether there is a kernel for several elements of this one."""
    from tvm_hetero.kernels.tir.batched import batch_kernel

    try:
        batch_kernel(kernel.func, SIZES[0], kernel.constants)
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
    for size in _paying_sizes(single, measured, batch):
        smaller = replace(cost, sizes=tuple(calls)).calls_of(size)
        if _pays(measured[size][0], math.fsum(calls[each] for each in smaller)):
            calls[size] = measured[size][0]
    cost = replace(cost, sizes=tuple(calls))
    if len(calls) == 1:
        return replace(cost, points=((1, single),))
    table = [
        (n, math.fsum(calls[each] for each in cost.calls_of(n)))
        for n in _numbers(max(calls), batch)
    ]
    return replace(cost, points=_thinned(table))


def _paying_sizes(
    single: float, measured: Mapping[int, tuple[float, float]], batch: int
) -> list[int]:
    """The sizes that beat single calls, each with all larger ones that were tried; rising."""
    tried = sorted((size for size in measured if size <= batch), reverse=True)
    found = takewhile(lambda n: _pays(measured[n][0], min(measured[n][1], n * single)), tried)
    return sorted(found)


def _pays(seconds: float, others: float) -> bool:
    return seconds * (1 + MARGIN) < others


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
