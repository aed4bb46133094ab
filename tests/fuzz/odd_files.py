"""What may stand where a file is expected: pipes, links, folders, a terabyte of holes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return make


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _sparse(path: Path) -> None:
    os.truncate(path, 1 << 40)


def _deep(path: Path) -> None:
    path.write_text("[" * 200_000)


def _hard(path: Path) -> None:
    os.link(path, path.with_name("another"))


# Each is given a file that is there.
REPLACEMENTS: list[Callable[[Path], None]] = [
    _pipe, _link("/dev/zero"), _link("/etc/passwd"), _link("none"), _folder, _sparse, _deep, _hard,
    Path.unlink, lambda path: path.write_bytes(b""),
]  # fmt: skip
