"""Files of the cache that are code: taken only if they are ours and as we wrote them.

A library in the cache is loaded, or copied into an artifact, and runs with the rights of whoever
does it. So it counts only if it belongs to this user, nobody else may write to it, and its SHA-256
is that in the file beside it (``X.so.sha256``), which has to be ours as well. What does not fit is
made again: it was cut by a full disk, damaged, or put there by somebody else.

Two processes that make one file at once may leave the file of one with the hash of the other, if
compilers do not give the same bytes twice; whoever comes next makes it again.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tvm_hetero.errors import FormatError
from tvm_hetero.util.documents import write_atomic
from tvm_hetero.util.files import current_umask, sha256_of_file
from tvm_hetero.util.plain_file import read_plain_file

_HASH = ".sha256"
_HASH_BYTES = 64
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_kept(path: Path) -> bool:
    """Whether a file is there that is ours, and as it was when `keep` put it there."""
    beside = _hash_beside(path)
    try:
        if not (_is_ours(path) and _is_ours(beside)):
            return False
        expected = read_plain_file(beside, _HASH_BYTES + 1).strip()
        return sha256_of_file(path).encode() == expected
    except OSError:
        return False


def keep(made: Path, path: Path) -> None:
    """Put a file that was made beside it under its name, and its hash next to it.

    Raises
    ------
    OSError
        If it, or its hash, cannot be written.
    """
    os.chmod(made, 0o644 & ~current_umask())
    try:
        write_atomic(_hash_beside(path), sha256_of_file(made) + "\n")
    except FormatError as error:
        raise OSError(str(error)) from None
    os.chmod(_hash_beside(path), 0o644 & ~current_umask())
    os.replace(made, path)  # which appears whole, whoever else makes it too


def is_damaged(path: Path) -> bool:
    """Whether a file that was kept has become another; False of one that never was."""
    return _hash_beside(path).exists() and not is_kept(path)


def _hash_beside(path: Path) -> Path:
    return path.with_name(path.name + _HASH)


def _is_ours(path: Path) -> bool:
    """Whether a plain file is this user's, and nobody else may write to it; links are none."""
    state = os.lstat(path)
    is_plain = stat.S_ISREG(state.st_mode)
    return is_plain and state.st_uid == os.geteuid() and not state.st_mode & _OTHERS_WRITE
