"""What cores read from memory, alone and together: by how much two could decode faster than one.

One sequence's step reads all weights once, so two cores decode as much faster than one as they read
faster together, at most, where one core keeps its way to the memory busy. The processors of a
virtual machine are moved about on their host: where they share that way, two read hardly more than
one, and minutes later twice as much. So reading is measured in turns with decoding.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence

from benchmarks.kernel_cases.peaks import reading
from tvm_hetero.platform.host import available_cores

SPAN = 256 << 20  # bytes; several times what caches hold
_PASSES = 3


class MemoryPace:
    """Reads the same bytes again and again."""

    def __init__(self, span: int = SPAN) -> None:
        """Make them ready, for each core its part of them."""
        self._cores = sorted(available_cores())[:2]
        self._span = span
        self._whole = [reading(span)]
        self._parts = [reading(span // len(self._cores)) for _ in self._cores]

    def measure(self) -> tuple[float, float]:
        """GB/s that the first core reads, and the first two together; the best of a few passes."""
        return self._best(self._cores[:1], self._whole), self._best(self._cores, self._parts)

    def _best(self, cores: Sequence[int], calls: Sequence[Callable[[], object]]) -> float:
        return max(self._pass(cores, calls) for _ in range(_PASSES))

    def _pass(self, cores: Sequence[int], calls: Sequence[Callable[[], object]]) -> float:
        """From when the first thread begins to when the last one is through."""
        gate, times = threading.Barrier(len(cores)), list[float]()

        def read(core: int, call: Callable[[], object]) -> None:
            os.sched_setaffinity(0, {core})  # of this thread alone
            gate.wait()
            start = time.perf_counter()
            call()
            times.extend((start, time.perf_counter()))

        threads = [
            threading.Thread(target=read, args=pair) for pair in zip(cores, calls, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._span / (max(times) - min(times)) / 1e9
