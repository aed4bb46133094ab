"""Files: their SHA-256; folders that are written whole or not at all."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from tvm_hetero.util.leftovers import temporary_folder


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


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Write a folder, whole or not at all; at no moment is there no folder where one stood.

    Parameters
    ----------
    path : Path
        Where it shall stand, resolved; what stands there is replaced.
    fill : callable
        Puts the files into the folder that it is given. What it raises is raised, and nothing has
        changed then.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(f".{path.name}.", path.parent) as temporary:
        fill(temporary)
        os.chmod(temporary, 0o755)
        if path.exists():
            # What stood there has the temporary name afterwards, and goes with it.
            exchange_names(temporary, path)
        else:
            os.rename(temporary, path)
