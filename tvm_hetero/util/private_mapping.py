"""Bytes of a file as memory of this process's own, which keeps no descriptor open.

Python's `mmap` duplicates the descriptor that it is given and keeps that as long as the mapping
lives (up to Python 3.12, always): each model in memory would hold dozens, a child one for each of
its weights, and a process has 1024.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import weakref
from functools import cache
from typing import Any

import numpy as np

_FAILED = ctypes.c_void_p(-1).value


def map_privately(file: int, size: int, start: int = 0) -> memoryview:
    """Return bytes of a file; what is written to them is not written to the file.

    Parameters
    ----------
    file : int
        A descriptor; it may be closed afterwards.
    size : int
        How many bytes, above 0.
    start : int
        Where they begin: at a page.

    Raises
    ------
    MemoryError
        So much cannot be mapped.
    OSError
        It cannot be mapped for another reason.
    """
    libc = _libc()
    access = mmap.PROT_READ | mmap.PROT_WRITE
    address = libc.mmap(None, size, access, mmap.MAP_PRIVATE, file, start)
    if address == _FAILED:
        number = ctypes.get_errno()
        if number == errno.ENOMEM:
            raise MemoryError(f"{size} bytes cannot be mapped: {os.strerror(number)}")
        raise OSError(number, os.strerror(number))
    mapped = (ctypes.c_ubyte * size).from_address(address)
    # At the end of the process there may be readers still.
    weakref.finalize(mapped, libc.munmap, address, size).atexit = False
    return np.frombuffer(memoryview(mapped), np.uint8).data


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    number, size = ctypes.c_int, ctypes.c_size_t
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, size, number, number, number, ctypes.c_int64]
    libc.munmap.argtypes = [ctypes.c_void_p, size]
    return libc
