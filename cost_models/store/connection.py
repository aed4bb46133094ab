"""Connections to the file of measured costs: how long they wait for others, and what they say."""

from __future__ import annotations

import sqlite3
import warnings
from pathlib import Path

from tvm_hetero.errors import ProfileError

# How long one program waits for another's commit, s, at first without a word. A commit takes
# milliseconds; who stands longer in the middle of one was stopped, or is no program of ours.
PATIENCE = 60.0
SILENCE = 2.0


def connect(path: Path, patience: float | None = None) -> sqlite3.Connection:
    """A connection that waits so many seconds (default: `PATIENCE`) for others."""
    timeout = PATIENCE if patience is None else patience
    return sqlite3.connect(path, timeout=timeout, isolation_level=None)


def begin_transaction(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection in a transaction, which has the lock that it needs.

    Raises
    ------
    sqlite3.Error
        If others do not let go of the file, or it is of no use.
    """
    try:
        return _begun(connect(path, SILENCE), write)
    except sqlite3.OperationalError as error:
        if not is_locked(error):
            raise
    warnings.warn(
        f"another program holds the store of measured costs {path}; waiting for {PATIENCE:g} s",
        stacklevel=2,
    )
    return _begun(connect(path), write)


def is_locked(error: Exception) -> bool:
    """Whether an error says that others hold the file."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def unusable(path: Path, error: Exception) -> ProfileError:
    """What is said where the file is of no use."""
    if is_locked(error):
        return ProfileError(
            f"the store of measured costs {path} is held by another program, which has not let go "
            f"of it for {PATIENCE:g} s: end that one (fuser {path} names it), or set "
            "TVM_HETERO_CACHE to another folder"
        )
    return ProfileError(
        f"the store of measured costs {path} cannot be used: {error}; set TVM_HETERO_CACHE to a "
        "folder that can be written, or delete the file"
    )


def _begun(db: sqlite3.Connection, write: bool) -> sqlite3.Connection:
    try:
        db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        db.execute("SELECT 1 FROM kernels LIMIT 1").fetchone()  # takes the lock of who reads
    except BaseException:
        db.close()
        raise
    return db
