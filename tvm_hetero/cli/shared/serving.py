"""What the verbs that serve, and that ask servers, read alike: objectives and keys."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.util.plain_file import open_plain_file
from tvm_hetero.util.units import parse_seconds

_LONGEST_KEY = 4096


def read_levels(given: Iterable[str]) -> dict[str, list[float]]:
    """Times (s) by model, rising, from ``NAME=20ms``; a name may come several times.

    Raises
    ------
    UsageError
        If one is no such time; one without a unit is none, since some would mean milliseconds.
    """
    levels: dict[str, list[float]] = {}
    for text in given:
        name, mark, time = text.partition("=")
        if not (name and mark and time[-1:].isalpha()):
            raise UsageError(f"--slo {text}: expected NAME=TIME, such as resnet=20ms")
        try:
            seconds = parse_seconds(time, f"--slo {name}")
        except FormatError as error:
            raise UsageError(str(error)) from None
        if not seconds > 0:
            raise UsageError(f"--slo {text}: expected a time above 0")
        levels[name] = sorted({*levels.get(name, ()), seconds})
    return levels


def read_key(path: Path | None) -> str | None:
    """The key in a file that only its owner can read; None for no file.

    Raises
    ------
    UsageError
        If it cannot be read, or others can read it.
    """
    if path is None:
        return None
    try:
        with open_plain_file(path, _LONGEST_KEY * 4) as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & 0o077:
                raise UsageError(f"others can read the key's file {path} (mode {mode & 0o777:o}): "
                                 "chmod 600 it")  # fmt: skip
            return file.read().decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            f"the key's file {path} cannot be read: {reason}; expected a file with the key alone"
        ) from None
