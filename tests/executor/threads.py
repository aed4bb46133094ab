"""Threads in tests, and waiting for what they do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

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


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true."""
    end = time.monotonic() + WAIT
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()
