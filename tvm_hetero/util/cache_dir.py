"""Where what is costly to find out is kept: measured costs and compiled kernels.

The latter are code, so the folder is this user's, and nobody else writes to it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tvm_hetero.errors import UsageError


def cache_dir() -> Path:
    """The folder of the cache, made if need be.

    ``$TVM_HETERO_CACHE``, else ``$XDG_CACHE_HOME/tvm_hetero``, else ``~/.cache/tvm_hetero``.

    Raises
    ------
    UsageError
        If the folder cannot be found, made or written, or is somebody else's.
    """
    given = os.environ.get("TVM_HETERO_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = _own_home(Path(given or Path(base) / "tvm_hetero"))
    make_own_folder(path)
    if not os.access(path, os.W_OK):
        raise UsageError(
            f"the cache folder {path} cannot be written; set TVM_HETERO_CACHE to another one"
        )
    return path


def _own_home(path: Path) -> Path:
    """The path with its ``~`` replaced."""
    try:
        return path.expanduser()
    except RuntimeError as error:  # no such user, or one without a home
        raise UsageError(
            f"the cache folder {path} cannot be found ({error}); set TVM_HETERO_CACHE to the full "
            "path of a folder that can be written"
        ) from None


def make_own_folder(path: Path) -> None:
    """Make a folder that nobody else writes to; one that is there has to be this user's.

    Raises
    ------
    UsageError
        If it cannot be made, or is somebody else's: who owns it can put code there.
    """
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        state = os.stat(path)
        if state.st_uid == os.geteuid() and state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            os.chmod(path, stat.S_IMODE(state.st_mode) & 0o755)  # made with a wide umask
    except OSError as error:
        raise UsageError(
            f"the cache folder {path} cannot be made ({error.strerror}); "
            "set TVM_HETERO_CACHE to a folder that can be written"
        ) from None
    if state.st_uid != os.geteuid():
        raise UsageError(
            f"the cache folder {path} belongs to user {state.st_uid}, who could put code there "
            f"that would run as user {os.geteuid()}; set TVM_HETERO_CACHE to a folder of your own"
        )
