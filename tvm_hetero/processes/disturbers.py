"""Start and end programs that disturb what is measured (`tvm_hetero.processes.disturbance`).

>>> with disturb("busy", core=1):                               # doctest: +SKIP
...     measure()
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tvm_hetero.errors import ProfileError, UsageError
from tvm_hetero.platform.host import available_cores
from tvm_hetero.processes import disturbance
from tvm_hetero.util.nearest import nearest

# A disturber that nobody ends is gone after so many seconds.
MOST_SECONDS = 120.0
_PATIENCE = 10.0
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@contextlib.contextmanager
def disturb(kind: str, core: int, seconds: float = MOST_SECONDS) -> Iterator[int]:
    """A program of that kind is at work on a core, until the block ends.

    Parameters
    ----------
    kind : ``busy``, ``stream`` or ``thrash``.
    core : that it is pinned to.
    seconds : after which it ends by itself, whatever happens here.

    Yields
    ------
    int
        The number of its process.

    Raises
    ------
    UsageError
        If there is no such kind, or the core is not one that this process may use.
    ProfileError
        If it did not start, or ended before the block did: what was measured means nothing.
    """
    check_disturbance(kind, core)
    with _started(kind, core, seconds) as process:
        try:
            _wait_until_ready(process, kind)
            yield process.pid
            if process.poll() is not None:
                raise ProfileError(
                    f"the disturbance {kind!r} on core {core} was over (after {seconds:g} s at "
                    "most) before what it was to disturb: measure for a shorter time"
                )
        finally:
            process.kill()


def check_disturbance(kind: str, core: int) -> None:
    """Refuse what cannot be started.

    Raises
    ------
    UsageError
        If there is no such kind, or the core is not one that this process may use.
    """
    if kind not in disturbance.KINDS:
        raise UsageError(f"no disturbance {kind!r}{nearest(kind, disturbance.KINDS)}")
    if core not in available_cores():
        known = ", ".join(map(str, sorted(available_cores())))
        raise UsageError(f"core {core} is not one that this process may use ({known})")


def _started(kind: str, core: int, seconds: float) -> subprocess.Popen[bytes]:
    """In our own session, where the scheduler divides a core evenly between programs."""
    size = last_level_cache(core)
    given = map(str, (kind, core, seconds, size, os.getpid()))
    script = str(Path(disturbance.__file__))
    # Without the user's modules and settings: they would take longer than all the rest.
    command = [sys.executable, "-I", "-S", script, *given]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def _wait_until_ready(process: subprocess.Popen[bytes], kind: str) -> None:
    assert process.stdout is not None
    heard = select.select([process.stdout], [], [], _PATIENCE)[0]
    if not heard or not process.stdout.read(1):
        raise ProfileError(f"the disturbance {kind!r} did not start")


def last_level_cache(core: int, root: str | os.PathLike[str] = "/") -> int:
    """Bytes of the largest cache that a core has; a common size where the system does not say."""
    found = [
        _bytes_of(path.read_text())
        for path in Path(root).glob(f"sys/devices/system/cpu/cpu{core}/cache/index*/size")
    ]
    return max(found, default=0) or disturbance.DEFAULT_CACHE


def _bytes_of(text: str) -> int:
    """Of a size as Linux writes it: ``32768K``."""
    number, unit = text.strip()[:-1], text.strip()[-1:]
    return int(number) * _UNITS[unit] if number.isdecimal() and unit in _UNITS else 0
