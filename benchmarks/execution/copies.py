"""One device's plan on several cores at once, each copy with a stream of its own.

No copy waits for another or hands it anything, so that what their sum falls short of so many times
one copy's rate is the machine's doing: cores share memory, a cache, perhaps a clock. A plan that
divides batches between the same cores computes the same with the same kernels, and so can hardly do
better; by how much it does worse is what dividing costs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from benchmarks.execution.contenders import LEAST_BATCHES, Rate
from tvm_hetero.artifact.executable import PARTITION, SINGLE, Executable
from tvm_hetero.cli.shared.measure import Arrays
from tvm_hetero.executor.executor import Executor


def on_core(executable: Executable, core: int) -> Executor:
    """What runs the build for one device of one core, on that core or another.

    Raises
    ------
    ValueError
        If it has several workers, or its worker several cores.
    """
    name = SINGLE if SINGLE in executable.variants else PARTITION
    variant = executable.variants[name]
    workers = variant.plan.workers
    if len(workers) != 1 or len(workers[0].cores) != 1:
        raise ValueError(f"expected a plan of one worker on one core, got {workers}")
    plan = replace(variant.plan, workers=(replace(workers[0], cores=(core,)),))
    variants = {**executable.variants, name: replace(variant, plan=plan)}
    return Executor(replace(executable, variants=variants), name)


def copies_rate(executors: Sequence[Executor], inputs: Arrays, batch: int) -> Rate:
    """Images per second of all together, each measured while all others work."""
    period = executors[0].throughput(inputs, LEAST_BATCHES)

    def rate(seconds: float) -> float:
        batches = max(LEAST_BATCHES, round(seconds / period))
        begin, working = threading.Barrier(len(executors)), _Count(len(executors))

        def one(executor: Executor) -> float:
            begin.wait()
            mine = executor.throughput(inputs, batches)
            working.less()
            while working.any():  # so that the last one, too, is measured beside all others
                executor.throughput(inputs, 1)
            return batch / mine

        with ThreadPoolExecutor(len(executors)) as pool:
            return sum(pool.map(one, executors))

    return rate


class _Count:
    """How many are still at it."""

    def __init__(self, count: int) -> None:
        self._count, self._lock = count, threading.Lock()

    def less(self) -> None:
        with self._lock:
            self._count -= 1

    def any(self) -> bool:
        with self._lock:
            return self._count > 0
