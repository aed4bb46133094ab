"""Temporary files and folders, of which nothing is left when the process ends, however it ends.

What is made here is registered before it exists, by a name that nobody else has, and struck off
when it is gone: so an interruption between two instructions cannot lose it. What is registered at
the end of the process is removed then; whoever ends it before that (`tvm_hetero.processes.signals`)
does the same.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Path -> the process that made it: a fork's child removes nothing of its parent's.
_MADE: dict[Path, int] = {}
# Set when no more may be made, since all are being removed; threads that have looked at it and
# then make one, and seconds that are waited for them.
_ENDING = threading.Event()
_CREATING: set[int] = set()
_PATIENCE = 1.0
os.register_at_fork(after_in_child=_CREATING.clear)  # of threads that the child has not


def make_folder(prefix: str, parent: str | os.PathLike[str] | None = None) -> Path:
    """Make a folder that only we may use; `remove` it.

    Parameters
    ----------
    prefix : what its name begins with.
    parent : where; by default the folder for temporary files (``TMPDIR``).

    Raises
    ------
    OSError
        If there is no room, or the parent takes no folders.
    """
    return _make(prefix, "", parent, lambda path: os.mkdir(path, 0o700))


def make_file(prefix: str, suffix: str, parent: str | os.PathLike[str]) -> Path:
    """Make an empty file that only we may use; `remove` it, or rename it and `forget` it.

    Raises
    ------
    OSError
        If there is no room, or the parent takes no files.
    """

    def create(path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))

    return _make(prefix, suffix, parent, create)


@contextmanager
def temporary_folder(prefix: str, parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A folder (`make_folder`) that is gone after the block."""
    path = make_folder(prefix, parent)
    try:
        yield path
    finally:
        remove(path)


def remove(path: Path) -> None:
    """Remove what was made here, if it is still there."""
    _remove_from_disk(path)
    forget(path)


def forget(path: Path) -> None:
    """What was made here has another name now, and shall stay."""
    _MADE.pop(path, None)


@atexit.register
def remove_all() -> None:
    """Remove all that was made and not removed; for the end of the process, and none is made after.

    Threads that go on for a moment may write into a folder while it goes: it is tried twice.
    """
    _ENDING.set()
    end = time.monotonic() + _PATIENCE
    while _CREATING - {threading.get_ident()} and time.monotonic() < end:
        time.sleep(0.001)
    mine = [path for path, process in list(_MADE.items()) if process == os.getpid()]
    for path in mine + mine:
        with suppress(OSError):  # a disk that takes no changes may not keep the process
            _remove_from_disk(path)


def _make(
    prefix: str,
    suffix: str,
    parent: str | os.PathLike[str] | None,
    create: Callable[[Path], None],
) -> Path:
    folder = Path(tempfile.gettempdir() if parent is None else parent).absolute()
    while True:
        path = folder / f"{prefix}{os.urandom(4).hex()}{suffix}"
        _MADE[path] = os.getpid()
        try:
            with _creating():
                create(path)
            return path
        except FileExistsError:
            forget(path)
        except OSError:
            forget(path)
            raise


@contextmanager
def _creating() -> Iterator[None]:
    """For a block that makes one, before all are removed or not at all."""
    me = threading.get_ident()
    try:
        _CREATING.add(me)
        while _ENDING.is_set():  # the process is gone in a moment
            _CREATING.discard(me)
            time.sleep(0.1)
        yield
    finally:
        _CREATING.discard(me)


def _remove_from_disk(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
