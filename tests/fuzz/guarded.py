"""Memory with a wall before or behind it: who steps over it ends the process.

Compiled kernels are no C++ that a sanitizer could look into.  Their arrays are put against a page
that may be neither read nor written instead, so the first byte outside is a segmentation fault.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
ALIGNMENT = 64
_NOTHING = 0  # PROT_NONE


class GuardedArrays:
    """Arrays between walls.

    Attributes
    ----------
    behind : bool
        Whether the wall that an array touches is the one behind it; else it is the one before.
        Arrays are aligned to `ALIGNMENT` bytes, so of the wall behind fewer bytes may be missed.
    """

    def __init__(self, *, behind: bool) -> None:
        self.behind = behind
        self._regions: list[mmap.mmap] = []
        self._libc = ctypes.CDLL(None, use_errno=True)

    def copy(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a copy of an array that stands against a wall."""
        size = max(array.nbytes, 1)
        pages = -(-size // PAGE) + 2
        region = mmap.mmap(-1, pages * PAGE)
        self._regions.append(region)
        start = ctypes.addressof(ctypes.c_char.from_buffer(region))
        for wall in (start, start + (pages - 1) * PAGE):
            if self._libc.mprotect(ctypes.c_void_p(wall), PAGE, _NOTHING):
                raise OSError(ctypes.get_errno(), "mprotect")
        room = (pages - 2) * PAGE
        offset = PAGE + (((room - size) // ALIGNMENT) * ALIGNMENT if self.behind else 0)
        made = np.frombuffer(region, array.dtype, array.size, offset).reshape(array.shape)
        made[...] = array
        return made
