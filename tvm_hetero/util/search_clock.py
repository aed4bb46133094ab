"""The clock that searches look at, and how one is ended from outside.

Everybody who works on a schedule asks the time in order to end in time. So whoever wants it to end
now, such as Ctrl-C, moves the clock: after `stop_searches` it is later than any deadline that was
set before, and every search ends as it does when its time is up, with the best that it has. What
works in C++ does not look at this clock; it says how it is told, by `add_stop` for good or by
`stopped_by` for one call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Seconds by which the clock is moved: 30 years, so no deadline is later.
_AFTER_ALL = 1e9

_stopped = threading.Event()
# Told True when searches are to stop, False when they may begin again.
_always: list[Callable[[bool], object]] = []
_now_running: dict[object, Callable[[], object]] = {}


def now() -> float:
    """The moment, s: `time.monotonic`, or one after every deadline set before searches stopped."""
    return time.monotonic() + (_AFTER_ALL if _stopped.is_set() else 0.0)


def is_stopped() -> bool:
    """Whether searches have been told to stop."""
    return _stopped.is_set()


def stop_searches() -> None:
    """Let all searches of this process end with what they have. Any thread may call it."""
    _stopped.set()
    for tell in _always:
        tell(True)
    for stop in list(_now_running.values()):
        stop()


def allow_searches() -> None:
    """Take back what `stop_searches` did."""
    _stopped.clear()
    for tell in _always:
        tell(False)


def add_stop(tell: Callable[[bool], object]) -> None:
    """From now on, tell a library whether its searches are to stop."""
    _always.append(tell)
    tell(is_stopped())


@contextmanager
def stopped_by(stop: Callable[[], object]) -> Iterator[None]:
    """While the block runs, this is called when searches are to stop; at once if they are."""
    key = object()
    _now_running[key] = stop
    try:
        if is_stopped():
            stop()
        yield
    finally:
        del _now_running[key]
