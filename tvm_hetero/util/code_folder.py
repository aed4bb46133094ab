"""Folders from which code can be loaded: not those of a file system that is mounted ``noexec``.

``/tmp`` is, where administrators are careful, and so are many disks for data.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tvm_hetero.errors import UsageError
from tvm_hetero.util.cache_dir import cache_dir


def is_noexec(path: str | os.PathLike[str]) -> bool:
    """Whether no code can be loaded from where a file or folder is; no if that is unknown."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
    except OSError:
        return False


def temporary_folder() -> Path:
    """Where temporary files are made: ``TMPDIR``, or what is usual.

    Raises
    ------
    UsageError
        If there is no such folder that can be written.
    """
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise UsageError(
            f"there is no folder for temporary files ({error.strerror}); set TMPDIR to one that "
            "can be written"
        ) from None


def code_folder() -> Path:
    """Where temporary libraries are made: ``TMPDIR``, or the cache where that takes no code.

    Raises
    ------
    UsageError
        If there is neither.
    """
    usual = temporary_folder()
    if not is_noexec(usual):
        return usual
    if is_noexec(cache_dir()):
        raise UsageError(
            f"neither {usual} nor {cache_dir()} can hold compiled code: their file systems are "
            "mounted noexec; set TMPDIR (or TVM_HETERO_CACHE) to a folder of another one"
        )
    return cache_dir()
