"""Waiting in tests: for what comes true, never for a time by which it should have.

A sleep that is long enough on an idle machine is too short on a busy one, and wasted on a quick
one. What is waited for is asked again and again, until a limit that only a fault reaches: so many
seconds, and so many looks, since whoever was stopped meanwhile has not looked.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

LIMIT = 60.0
_PAUSE = 0.002
_LOOKS = 1000


def eventually(condition: Callable[[], object], limit: float = LIMIT) -> bool:
    """Whether a condition comes true within `limit` s."""
    end, looks = time.monotonic() + limit, 0
    while time.monotonic() < end or looks < _LOOKS:
        if condition():
            return True
        looks += 1
        time.sleep(_PAUSE)
    return bool(condition())


def is_asleep(thread: threading.Thread) -> bool:
    """Whether a thread of ours waits for something in the kernel."""
    return _status(Path(f"/proc/self/task/{thread.native_id}/stat"))[0] == "S"


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all of its threads, s; 0 if it is gone."""
    try:
        user, system = _status(Path(f"/proc/{pid}/stat"))[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _status(path: Path) -> list[str]:
    """The fields of a stat file from the third (the state) on; a name may have blanks in it."""
    return path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
