"""Files: their SHA-256, the umask, folders that are written whole or not at all."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from tvm_hetero.util.leftovers import temporary_folder
from tvm_hetero.util.plain_file import open_plain_file


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a plain file's bytes, as hexadecimal digits.

    Raises
    ------
    OSError
        As `open_plain_file`; or if it cannot be read.
    """
    with open_plain_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def current_umask() -> int:
    """Which permissions new files shall not have.

    Linux says so; asking by ``umask`` sets it, and for a moment every other thread's files with it.
    """
    with open("/proc/self/status", encoding="utf-8", errors="replace") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def obey_umask(folder: Path) -> None:
    """Give a folder and all in it the modes of new ones; what libraries wrote may be private."""
    mask = current_umask()
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            os.chmod(path, (0o777 if path.is_dir() else 0o666) & ~mask)


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
        obey_umask(temporary)
        if path.exists():
            # What stood there has the temporary name afterwards, and goes with it.
            exchange_names(temporary, path)
        else:
            os.rename(temporary, path)
