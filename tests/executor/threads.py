"""Threads in tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.executor.gated import WAIT


def in_threads(count: int, body: Callable[[int], None]) -> None:
    """Run a body in threads, all of which must end well."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            body(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()
    assert failures == []


class NotingPool(ThreadPoolExecutor):
    """Threads of an event loop, and what they were asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[Future[Any]] = []

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Note it."""
        self.begun.append(super().submit(*args, **kwargs))
        return self.begun[-1]
