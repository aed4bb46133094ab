"""The one moment at which everything is to be over, as everybody who works on an answer sees it.

A time limit counts from where the user gave it: reading, bounds, the judge and writing are within
it. Whoever asks several solvers in turn hands the same deadline to each; shares of the time that is
left are nets below it, never beyond it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm_hetero.errors import SolverError
from tvm_hetero.util.search_clock import now


@dataclass(frozen=True)
class Deadline:
    """A moment.

    Attributes
    ----------
    at : the moment, s of `clock`.
    clock : what the time is read from.
    """

    at: float
    clock: Callable[[], float] = now

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = now) -> Deadline:
        """So many seconds from now."""
        return cls(clock() + seconds, clock)

    def left(self) -> float:
        """Seconds until then, below 0 when it has passed."""
        return self.at - self.clock()

    def passed(self) -> bool:
        """Whether nothing may be begun any more."""
        return self.left() <= 0

    def sooner(self, seconds: float) -> Deadline:
        """The same with so many seconds kept for what comes after."""
        return Deadline(self.at - seconds, self.clock)


def time_is_up(ends: Deadline | None) -> bool:
    """Whether there is a deadline and it has passed."""
    return ends is not None and ends.passed()


def check_left(ends: Deadline | None, name: str, where: str) -> None:
    """Give up when the time is up; `where` says how far it has come.

    Raises
    ------
    SolverError
        If it is.
    """
    if time_is_up(ends):
        raise SolverError(f"{name}: the time is up {where}; raise the time limit")


def check_time(ends: Deadline | None, name: str, done: int, total: int) -> None:
    """Give up when the time is up.

    Raises
    ------
    SolverError
        If it is; says how far the method has come.
    """
    check_left(ends, name, f"after {done} of {total} tasks")
