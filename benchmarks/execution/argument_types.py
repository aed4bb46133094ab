"""Types of command lines' arguments: what is wrong is said before anything runs, not after it."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Collection
from pathlib import Path

from tvm_hetero.util.quote import quote


def duration(text: str) -> float:
    """A time above 0, s."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, got {quote(text)}")
    return value


def count(text: str) -> int:
    """A number from 1 on."""
    if not (text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {quote(text)}")
    return int(text)


def counts(text: str) -> tuple[int, ...]:
    """Numbers from 1 on with commas between."""
    return tuple(map(count, text.split(",")))


def names_of(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """Some of the known names, with commas between."""

    def names(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        unknown = [name for name in found if name not in known]
        if unknown:
            text = f"there is no {quote(unknown[0])}; expected some of {', '.join(known)}"
            raise argparse.ArgumentTypeError(text)
        return found

    return names


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(
            f"{quote(text)} is no regular expression: {error}"
        ) from None


def output_file(text: str) -> Path:
    """A file in a folder that is there."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"expected a file in a folder that is there, got {quote(text)}"
        )
    return path
