"""Policies by name: which there are, and how they are made.

    resolve         an exact re-solve of what is measured; ours
    odin, lls       keep the static configuration until something happens
    shisha, pipe-search, hill-climbing, annealing, random-walk, exhaustive
                    look for a configuration at once, and again when something happens
    static          never change anything

Names and options alike are checked before anything runs (`make_policy`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvm_hetero.errors import UsageError
from tvm_hetero.online.adaptation import adaptive_policy
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.policies import (
    annealing,
    exhaustive,
    hill_climbing,
    lls,
    odin,
    pipe_search,
    random_walk,
    resolve,
    shisha,
    static,
)
from tvm_hetero.online.policy import Policy, Setting
from tvm_hetero.online.search import Searcher
from tvm_hetero.util.nearest import nearest


def _static(setting: Setting) -> Configuration:
    return setting.static


def _first_hinted(setting: Setting) -> Configuration:
    return pipe_search.make_database(setting)[0]


def _shisha(assignment: shisha.Assignment = "rank_w", balance: shisha.Balance = "nlFEP") -> Policy:
    """Shisha with its two choices."""
    if assignment not in shisha.ASSIGNMENTS:
        raise UsageError(f"assignment: expected one of {shisha.ASSIGNMENTS}, got {assignment!r}")
    seed = partial(shisha.seed_of, assignment=assignment)
    return adaptive_policy(shisha.search_with(balance), seed)


def _searching(search: Searcher, seed: Callable[[Setting], Configuration] | None) -> Policy:
    return adaptive_policy(search, seed)


_MAKERS: dict[str, Callable[..., Policy]] = {
    "annealing": partial(_searching, annealing.SEARCH, _static),
    "exhaustive": partial(_searching, exhaustive.SEARCH, _static),
    "hill-climbing": partial(_searching, hill_climbing.SEARCH, _static),
    "lls": partial(_searching, lls.SEARCH, None),
    "odin": partial(_searching, odin.SEARCH, None),
    "pipe-search": partial(_searching, pipe_search.SEARCH, _first_hinted),
    "random-walk": partial(_searching, random_walk.SEARCH, _static),
    "resolve": lambda: resolve.POLICY,
    "shisha": _shisha,
    "static": lambda: static.POLICY,
}


def policy_names() -> tuple[str, ...]:
    """The names of all policies, sorted."""
    return tuple(sorted(_MAKERS))


def make_policy(name: str, **options: str) -> Policy:
    """The policy of that name. Options: `assignment` and `balance` of ``shisha``.

    Raises
    ------
    UsageError
        If there is no such policy, option or choice.
    """
    if name not in _MAKERS:
        raise UsageError(f"there is no policy {name!r}{nearest(name, _MAKERS)}")
    unknown = options.keys() - ({"assignment", "balance"} if name == "shisha" else set())
    if unknown:
        raise UsageError(f"policy {name!r} has no option {min(unknown)!r}")
    return _MAKERS[name](**options)
