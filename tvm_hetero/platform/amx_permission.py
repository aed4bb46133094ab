"""Linux's permission to use tile registers (AMX), which a process must ask for.

They are eight kilobytes that would have to be saved at every signal and change of threads, so a
process that touches them unasked is killed (Linux, Documentation/arch/x86/xstate.rst). What is
granted holds for all threads of the process and for children that it forks, not for programs that
it starts. The system says no where the stack for a thread's signals is too small for them, and old
kernels do not know the question.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache

# How the flags that Linux names begin which stand for tile registers.
TILES = "amx_"
_SYSCALL, _REQUEST, _TILE_DATA = 158, 0x1023, 18  # arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA


@cache
def ask_for_tiles() -> bool:
    """Ask for tile registers; whether this process may use them."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    numbers = (ctypes.c_long(number) for number in (_SYSCALL, _REQUEST, _TILE_DATA))
    return bool(syscall(*numbers) == 0)
