"""What a problem has been asked once: a problem never changes, so neither do the answers.

An answer is kept with its problem, as `functools.cached_property` keeps its own, and goes when the
problem goes. Only what is a function of the problem alone, and immutable, may be kept so. What
raises is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from tvm_hetero.problem.model import Problem

_T = TypeVar("_T")


def cached_per_problem(function: Callable[[Problem], _T]) -> Callable[[Problem], _T]:
    """The function, worked out once for each problem (the same object, not an equal one)."""
    key = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def asked(problem: Problem) -> _T:
        known = problem_cache(problem)
        if key not in known:
            known[key] = function(problem)
        found: _T = known[key]
        return found

    return asked


def problem_cache(problem: Problem) -> dict[str, Any]:
    """What is kept with a problem."""
    known: dict[str, Any] = problem.__dict__.setdefault("_kept", {})
    return known
