"""Threads that use one executor at once and at random, and keep the books of what they get.

Each takes one of a few inputs and a way to ask for its outputs: wait for them; cancel after a
while; give a deadline that may be too short; map over several; run. Whatever comes back is
compared, bit by bit, with what a run alone has given for this input: an output of another request,
or one out of order in a map, would be seen. Every request ends as one of `COUNTS`, or it is lost.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvm_hetero.cli.shared.measure import Arrays
from tvm_hetero.errors import DeadlineError
from tvm_hetero.executor.executor import Executor

COUNTS = ("done", "cancelled", "late")
# A request that was waited for so often, so many seconds each time, is lost. A process that is
# stopped meanwhile (SIGSTOP, for a measurement beside it) has waited once, however long that was.
_WAITS, _WAIT = 60, 1.0
# An output's pool keeps 16 buffers at least (src/memory/buffer_pool.h): more than are ever held at
# once where six callers have a request each and two a map.
_MAPPED, _MAPS = 4, threading.BoundedSemaphore(2)
Outputs = list[np.ndarray[Any, Any]]
# How long the workers may take to leave what was cancelled last, seconds.
_LEAVING = 0.05


class Caller(threading.Thread):
    """One thread; `counts` is its book, which only it writes.

    Attributes
    ----------
    counts : requests ``submitted``, and how they ended: `COUNTS`, ``wrong`` or ``lost``.
    error : what ended the thread, if it did not end by itself.
    """

    def __init__(
        self,
        executor: Executor,
        inputs: Sequence[Arrays],
        expected: Sequence[Outputs],
        latency: float,
        seed: int,
    ) -> None:
        super().__init__(name=f"caller-{seed}", daemon=True)
        self.counts: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._executor, self._inputs, self._expected = executor, inputs, expected
        self._latency = latency
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._rests = threading.Event()

    def end(self) -> None:
        """Ask it to end after the request at hand."""
        self._ended.set()

    @property
    def requests(self) -> int:
        """How many requests of its have ended."""
        return sum(self.counts[what] for what in (*COUNTS, "wrong"))

    def run(self) -> None:
        """Requests without a pause, until `end`."""
        ways = [self._wait, self._cancel, self._hurry, self._map, self._run]
        try:
            while not self._ended.is_set():
                self._rest()
                self._random.choices(ways, weights=(4, 3, 3, 1, 1))[0]()
        except BaseException as error:
            self.error = error
        finally:
            self._rests.set()

    def _rest(self) -> None:
        if not self._may_go_on.is_set():
            self._rests.set()
            self._may_go_on.wait()

    def _wait(self) -> None:
        which = self._pick()
        self._settle(which, self._executor.submit(self._inputs[which]))

    def _cancel(self) -> None:
        """After a time in which it may be queued, in flight or done; then `cancel` is to say so."""
        which = self._pick()
        pending = self._executor.submit(self._inputs[which])
        time.sleep(self._random.uniform(0.0, 3 * self._latency))
        if pending.cancel():
            try:
                result_of(pending)
                self.counts["wrong"] += 1
            except CancelledError:
                self.counts["cancelled"] += 1
            except FutureTimeoutError:
                self.counts["lost"] += 1
        else:
            self._settle(which, pending)

    def _hurry(self) -> None:
        which, deadline = self._pick(), self._random.uniform(0.1, 20.0) * self._latency
        try:
            self._settle(which, self._executor.submit(self._inputs[which], deadline=deadline))
        except DeadlineError:  # before it had room
            self.counts["late"] += 1

    def _map(self) -> None:
        chosen = [self._pick() for _ in range(_MAPPED)]
        with _MAPS:
            results = self._executor.map(self._inputs[which] for which in chosen)
            for which, outputs in zip(chosen, results, strict=True):
                self._compare(which, outputs)

    def _run(self) -> None:
        which = self._pick()
        self._compare(which, self._executor.run(self._inputs[which]))

    def _pick(self) -> int:
        self.counts["submitted"] += 1
        return self._random.randrange(len(self._inputs))

    def _settle(self, which: int, pending: Any) -> None:
        try:
            self._compare(which, result_of(pending))
        except DeadlineError:
            self.counts["late"] += 1
        except FutureTimeoutError:
            self.counts["lost"] += 1

    def _compare(self, which: int, outputs: Sequence[Any]) -> None:
        right = all(
            np.array_equal(np.asarray(mine.numpy()), wanted)
            for mine, wanted in zip(outputs, self._expected[which], strict=True)
        )
        self.counts["done" if right else "wrong"] += 1


def result_of(pending: Any, waits: int = _WAITS, seconds: float = _WAIT) -> Outputs:
    """The outputs of a request; `FutureTimeoutError` if it is lost."""
    for _ in range(waits):
        try:
            outputs: Outputs = pending.result(seconds)
            return outputs
        except FutureTimeoutError:
            continue
    raise FutureTimeoutError


@contextmanager
def at_rest(callers: Sequence[Caller]) -> Iterator[None]:
    """While it lasts no caller has a request, nor has the executor one of theirs."""
    for caller in callers:
        caller._rests.clear()
        caller._may_go_on.clear()
    try:
        for caller in callers:
            while caller.is_alive() and not caller._rests.wait(0.1):
                pass
        time.sleep(_LEAVING)
        yield
    finally:
        for caller in callers:
            caller._may_go_on.set()
