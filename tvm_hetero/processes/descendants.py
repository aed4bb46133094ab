"""All processes that this one has started, and those that they have: to end them with it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import defaultdict
from pathlib import Path

# Compilers remove their temporary files on SIGTERM; seconds that they have for it.
_PATIENCE = 0.2


def end_descendants() -> None:
    """End them; they have a moment to end by themselves."""
    found = descendants()
    _send(found, signal.SIGTERM)
    end = time.monotonic() + _PATIENCE
    while (found := descendants()) and time.monotonic() < end:
        time.sleep(0.01)
    _send(found, signal.SIGKILL)


def descendants() -> list[int]:
    """The numbers of those that run."""
    children = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
            # pid (name, which may have blanks and brackets) state parent ... As bytes: to look for
            # a codec is an import, and the main thread may be in the middle of one.
            state, parent = path.read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                children[int(parent)].append(int(path.parent.name))
    found: list[int] = []
    left = [os.getpid()]
    while left:
        new = children.pop(left.pop(), [])
        found += new
        left += new
    return found


def _send(processes: list[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
