"""Tests tried in child processes that live on from test to test: a crash takes no other one along.

Each child imports TVM once and answers one test after another over a pipe. One that ends, or does
not answer in time, is replaced; what it was at counts as a crash or a time-out.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.conforming.engines import CRASH, ENGINES, TIMEOUT, VARIANTS
from benchmarks.conforming.suite import SuiteTest
from benchmarks.spawned_process import SpawnedProcess
from tvm_hetero.processes.torch_import import hide_torch

SECONDS = 120
# A child's memory grows by what TVM keeps of every model.
TESTS_A_CHILD = 300
_DONE = ("", "", "")


class Child(SpawnedProcess):
    """A process that tries tests by one engine."""

    def __init__(self, engine: str) -> None:
        super().__init__(_serve, engine)
        self.left = TESTS_A_CHILD

    def attempt(self, test: SuiteTest, seconds: float) -> dict[str, tuple[str, str]]:
        """Return outcome and reason of each variant that was begun."""
        found: dict[str, tuple[str, str]] = {}
        begun = VARIANTS[0]
        self.left -= 1
        try:
            self.pipe.send(test)
            while True:
                if not self.pipe.poll(seconds):
                    found[begun] = (TIMEOUT, f"no answer in {seconds:g} s")
                    self.close()
                    return found
                variant, outcome, reason = self.pipe.recv()
                if not variant:
                    return found
                begun = variant
                if outcome:
                    found[variant] = (outcome, reason)
        except (EOFError, OSError):
            self.process.join()
            found[begun] = (CRASH, f"the process ended with {self.process.exitcode}")
            self.left = 0
            return found

    def close(self) -> None:
        """End the process; it takes no more tests."""
        super().close()
        self.left = 0


def tried(
    tests: Iterable[SuiteTest], engine: str, at_once: int = 2, seconds: float = SECONDS
) -> Iterator[tuple[SuiteTest, dict[str, tuple[str, str]]]]:
    """Yield what becomes of each test, so many tried at a time, in the order in which they end."""
    waiting: queue.SimpleQueue[SuiteTest | None] = queue.SimpleQueue()
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
    count = 0
    for test in tests:
        waiting.put(test)
        count += 1
    workers = min(at_once, count)
    for _ in range(workers):
        waiting.put(None)
        threading.Thread(target=_work, args=(waiting, ended, engine, seconds), daemon=True).start()
    for _ in range(count):
        answer = ended.get()
        if isinstance(answer, BaseException):
            raise answer
        yield answer


def _work(waiting: Any, ended: Any, engine: str, seconds: float) -> None:
    """Hand tests to a child, and start another one where it has ended."""
    child = Child(engine)
    try:
        while (test := waiting.get()) is not None:
            if child.left <= 0:
                child.close()
                child = Child(engine)
            ended.put((test, child.attempt(test, seconds)))
    except BaseException as error:
        ended.put(error)
    finally:
        child.close()


def _serve(pipe: Connection, engine: str) -> None:
    """Answer tests until the other end is closed. What TVM prints is nobody's."""
    hide_torch()  # it would take longer to load than TVM
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    attempt = ENGINES[engine]
    while True:
        try:
            test = pipe.recv()
        except EOFError:
            return
        for result in attempt(test):
            pipe.send(result)
        pipe.send(_DONE)
