"""What this process holds of memory, and what of it is in use.

Resident memory is what the system sees, and it is no measure of a leak: glibc keeps what is freed
in its arenas, for the threads' next requests, and an arena grows whenever more blocks are wanted of
it at once than ever before. Callers whose requests overlap at random reach such a record again and
again, ever more rarely, and each time resident memory grows by a block of an input's size and stays
there. What is *in use* comes back to the same figure as soon as no request is in flight:

    heap bytes       blocks that C and C++ hold: mallinfo2's uordblks (in arenas) + hblkhd (mapped)
    Python's blocks  objects of up to 512 bytes lie in memory of Python's own, which these count

Something that each request leaves behind shows in one of them: malloc's smallest block has 32
bytes. One thing is in the way: each thread puts freed blocks aside for itself (tcache), which glibc
counts as in use, and goes on filling that store for hours. `start_exactly` switches it off.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_NO_STORES = "glibc.malloc.tcache_count=0"


class _Mallinfo2(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33 and later."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


class InUse(NamedTuple):
    """What is in use: bytes of malloc's, and blocks of Python's."""

    heap_bytes: int
    python_blocks: int


def in_use() -> InUse:
    """What is in use now, garbage in circles collected."""
    gc.collect()
    info = _mallinfo2()()
    return InUse(info.uordblks + info.hblkhd, sys.getallocatedblocks())


@functools.cache
def _mallinfo2() -> Callable[[], _Mallinfo2]:
    function = ctypes.CDLL(None).mallinfo2
    function.restype = _Mallinfo2
    return function


def start_exactly(module: str) -> None:
    """Start this program, ``python -m module``, again without stores of threads, unless it was."""
    given = os.environ.get("GLIBC_TUNABLES", "")
    if _NO_STORES not in given:
        os.environ["GLIBC_TUNABLES"] = f"{given}:{_NO_STORES}".lstrip(":")
        os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])


def resident_bytes() -> int:
    """What the system has given this process of main memory."""
    # No Path.read_text: it leaves a block of Python's behind each time.
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE


def thread_count() -> int:
    """How many threads this process has."""
    return len(os.listdir("/proc/self/task"))
