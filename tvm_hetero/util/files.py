"""Files: their SHA-256, and two names of one folder exchanged in one step."""

from __future__ import annotations

import ctypes
import hashlib
import os
from pathlib import Path


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def exchange_names(one: Path, other: Path) -> None:
    """Exchange two names of one folder atomically (Linux's ``renameat2``).

    Raises
    ------
    OSError
        If the file system does not know how, or refuses; nothing has changed then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), swap) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
