"""A stream of requests that always has the next one ready, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from tvm_hetero.executor.executor import Executor

# Looking each millisecond took a tenth of a core from the stream itself.
_LOOK = 0.01


class FullStream:
    """Runs the same inputs again and again, by `Executor.map`, until the block ends.

    Attributes
    ----------
    begun, ended : when requests were handed over, and when their outputs came; s by
        `time.monotonic`.
    """

    def __init__(self, executor: Executor) -> None:
        self.begun: list[float] = []
        self.ended: list[float] = []
        self._executor = executor
        self._inputs = executor.inputs_that_run()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> FullStream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        for _ in self._executor.map(self._feed()):
            self.ended.append(time.monotonic())

    def _feed(self) -> Iterator[Any]:
        while not self._over.is_set():
            self.begun.append(time.monotonic())
            yield self._inputs

    def wait_for(self, requests: int) -> None:
        """Until so many more have ended."""
        wanted = len(self.ended) + requests
        while len(self.ended) < wanted:
            if not self._thread.is_alive():
                raise RuntimeError("the stream has ended")
            time.sleep(_LOOK)

    def rate(self, begin: float, end: float) -> float:
        """Requests/s between two moments."""
        return sum(begin <= at < end for at in self.ended) / (end - begin)

    def latencies(self) -> list[float]:
        """Seconds from handing over to the output, of each request, rising."""
        return sorted(b - a for a, b in zip(self.begun, self.ended, strict=False))
