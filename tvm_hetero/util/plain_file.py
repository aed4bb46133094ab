"""Files that a user or a document names: what is no plain file is refused at once.

Opening a named pipe waits for who writes to it, and a device has no end. What is looked at is the
open file and not its name, which may be another file's by then.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO


def open_plain_file(path: str | os.PathLike[str], most: int | None = None) -> BufferedReader:
    """Open a file for reading.

    Parameters
    ----------
    path : of the file; links are followed.
    most : bytes that it may have.

    Raises
    ------
    OSError
        It is not there, no plain file, or larger. `strerror` says so in words for the user.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a name with a NUL in it
        raise OSError(errno.EINVAL, "there can be no file of that name") from None
    state = os.fstat(descriptor)
    fault = _fault(state, most)
    if fault:
        os.close(descriptor)
        raise OSError(errno.EINVAL, fault, os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_plain_file(path: str | os.PathLike[str], most: int) -> bytes:
    """All bytes of a plain file that has at most `most` of them, however it grows meanwhile.

    Raises
    ------
    OSError
        As `open_plain_file`; or if it is larger, which is seen before it is read if it says so.
    """
    with open_plain_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > most else read_at_most(file, most)
        if size < len(data) <= most:  # it has grown
            data += file.read(most + 1 - len(data))
    if size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most} bytes")
    return data


def read_plain_text(path: Path, most: int) -> str:
    """The UTF-8 text of a file of at most `most` bytes.

    Raises
    ------
    OSError
        As `open_plain_file`; or it is no UTF-8 text.
    """
    with open_plain_file(path, most) as file:
        raw = read_at_most(file, most)
    try:
        return raw[:most].decode("utf-8")
    except UnicodeDecodeError:
        raise OSError(errno.EINVAL, "it is not UTF-8 text", os.fspath(path)) from None


def read_at_most(file: BinaryIO, most: int) -> bytes:
    """What is in a plain file, or more than `most` bytes of it if it has so many.

    ``read(n)`` takes memory for n bytes before it reads one: of a limit of 16 GB, that of a small
    file cannot be read where there are 8.
    """
    return file.read(min(os.fstat(file.fileno()).st_size, most) + 1)


def _fault(state: os.stat_result, most: int | None) -> str:
    if stat.S_ISDIR(state.st_mode):
        return "it is a folder"
    if not stat.S_ISREG(state.st_mode):
        return "it is no plain file"
    if most is not None and state.st_size > most:
        return f"it has {state.st_size} bytes, more than {most}"
    return ""
