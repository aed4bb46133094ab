"""A bound that takes long looks at the clock on the way, and is given up where the time is up."""

from __future__ import annotations

from collections.abc import Callable

# Says whether the time is up.
Late = Callable[[], bool]


class TimeIsUp(Exception):
    """A bound was given up half-way; what the rungs below it say stands."""


def never() -> bool:
    """For who has all the time."""
    return False


def check_late(late: Late) -> None:
    """Give up where the time is up.

    Raises
    ------
    TimeIsUp
        If it is.
    """
    if late():
        raise TimeIsUp
