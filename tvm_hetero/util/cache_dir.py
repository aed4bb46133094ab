"""Where what is costly to find out is kept: measured costs and compiled kernels."""

from __future__ import annotations

import os
from pathlib import Path

from tvm_hetero.errors import UsageError


def cache_dir() -> Path:
    """The folder of the cache, made if need be.

    ``$TVM_HETERO_CACHE``, else ``$XDG_CACHE_HOME/tvm_hetero``, else ``~/.cache/tvm_hetero``.

    Raises
    ------
    UsageError
        If the folder cannot be made or written.
    """
    given = os.environ.get("TVM_HETERO_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(given or Path(base) / "tvm_hetero").expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the cache folder {path} cannot be made ({error.strerror}); "
            "set TVM_HETERO_CACHE to a folder that can be written"
        ) from None
    if not os.access(path, os.W_OK):
        raise UsageError(
            f"the cache folder {path} cannot be written; set TVM_HETERO_CACHE to another one"
        )
    return path
