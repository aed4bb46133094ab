"""Files: plain ones, read within limits; their SHA-256; folders, written whole or not at all.

What a user or a document names may be anything: a pipe that nobody writes to, a device without end,
a folder. Whatever is opened is looked at first, by the open file and not by its name, which may be
another file's by then.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def open_plain_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a plain file for reading; all else is refused at once, and nothing waited for.

    Raises
    ------
    OSError
        If it cannot be opened, or is no plain file.
    """
    try:
        # O_NONBLOCK: opening a pipe must not wait for who writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a name with a NUL in it
        raise OSError(errno.EINVAL, "there can be no file of that name") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        is_folder = stat.S_ISDIR(mode)
        raise OSError(errno.EINVAL, "it is a folder" if is_folder else "it is no plain file")
    return os.fdopen(descriptor, "rb")


def read_plain_file(path: str | os.PathLike[str], most: int) -> bytes:
    """All bytes of a plain file that has at most `most` of them, however it grows meanwhile.

    Raises
    ------
    OSError
        As `open_plain_file`; or if it is larger, which is seen before it is read if it says so.
    """
    with open_plain_file(path) as file:
        is_larger = os.fstat(file.fileno()).st_size > most
        data = b"" if is_larger else file.read(most + 1)
    if is_larger or len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most} bytes")
    return data


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
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        fill(temporary)
        obey_umask(temporary)
        if path.exists():
            # What stood there has the temporary name afterwards, and goes with it.
            exchange_names(temporary, path)
        else:
            os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
