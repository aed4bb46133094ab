"""Waiting without a limit for other threads, in such a way that Ctrl-C is always heard.

A signal that comes while the main thread sleeps in a lock wakes it. One that comes just before
does not: the handler of C has run, the lock is slept on for as long as it takes, and Python hears
of the signal when somebody lets go of the lock, or never (on one core, with the thread that sends
the signal beginning as the lock is taken: 1 in 1000). Whoever waits in slices looks now and then.
"""

from __future__ import annotations

import threading

# Between two looks, s: short for who pressed Ctrl-C, and nothing for a core.
_SLICE = 0.1


def await_event(event: threading.Event) -> None:
    """Wait until an event is set, however long that takes."""
    while not event.wait(_SLICE):
        pass
