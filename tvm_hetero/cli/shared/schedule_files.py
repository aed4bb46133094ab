"""A schedule's file and the problem that it answers, which is named or looked for beside it."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.schedule import Schedule

# How far the problem of a schedule is looked for beside it.
_MOST_FILES = 50
_MOST_BYTES = 64 * 2**20


def matching_problem(schedule: Schedule, problem: Problem | None) -> Problem | None:
    """The problem, if the schedule is an answer to it.

    Raises
    ------
    UsageError
        If it is an answer to another one.
    """
    if problem is not None and problem.digest != schedule.problem:
        raise UsageError(
            "--problem: the schedule answers another problem "
            f"({schedule.problem[:12]}..., this one is {problem.digest[:12]}...)"
        )
    return problem


def problem_beside(schedule: Schedule, path: Path) -> Problem | None:
    """The problem of the schedule, if it lies in the same folder."""
    from tvm_hetero.errors import HeteroError
    from tvm_hetero.problem.model import Problem

    others = (other for other in sorted(path.parent.glob("*.json")) if other != path)
    for other in islice(others, _MOST_FILES):
        with suppress(HeteroError, OSError):
            # Nothing but plain files: opening a pipe waits for who writes to it.
            if other.is_file() and other.stat().st_size <= _MOST_BYTES and _is_problem(other):
                problem = Problem.load(other)
                if problem.digest == schedule.problem:
                    return problem
    return None


def _is_problem(path: Path) -> bool:
    with path.open("rb") as file:
        return b"tvm-hetero/problem/" in file.read(200)
