"""What a problem has been asked once: a problem never changes, so neither do the answers.

An answer is kept with its problem, as `functools.cached_property` keeps its own, and goes when the
problem goes. Only what is a function of the problem alone, and immutable, may be kept so. What
raises is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from tvm_hetero.problem.model import Problem

_T = TypeVar("_T")
_Rest = ParamSpec("_Rest")


def cached_per_problem(
    function: Callable[Concatenate[Problem, _Rest], _T],
) -> Callable[Concatenate[Problem, _Rest], _T]:
    """The function, worked out once for each problem (the same object, not an equal one).

    What else it is told, such as when to give up, may not change what it answers.
    """
    key = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def asked(problem: Problem, *rest: _Rest.args, **named: _Rest.kwargs) -> _T:
        known = problem_cache(problem)
        if key not in known:
            known[key] = function(problem, *rest, **named)
        found: _T = known[key]
        return found

    return cast(Callable[Concatenate[Problem, _Rest], _T], asked)


def problem_cache(problem: Problem) -> dict[str, Any]:
    """What is kept with a problem."""
    known: dict[str, Any] = problem.__dict__.setdefault("_kept", {})
    return known
