"""Exhaustive search: every configuration is tried, one after the other; the papers' yardstick.

Configurations are numbered: first by the number of stages K, then by the places of the stages,
then by where the K - 1 cuts are. A trial is made of its number alone, so that nothing has to be
kept of a space of millions (`configuration_at`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Setting, Turn
from tvm_hetero.online.search import Searcher, Trials, propose_trial, settle


@dataclass(frozen=True)
class _Exhaustive:
    trials: Trials
    first: Configuration


def begin(setting: Setting, first: Configuration) -> Turn:
    """Begin with a configuration, then all others."""
    return _Exhaustive(Trials(setting, first), first), propose_trial(setting, first, "the first")


def step(state: _Exhaustive, observation: Observation) -> Turn:
    """Go on with the next one; those that were seen are not kept, but for the first one."""
    setting = state.trials.setting
    trials = replace(state.trials.add(observation), seen=frozenset())
    number = trials.count - 1
    total = count_configurations(setting.blocks, setting.places)
    # The first one was tried out of its turn, so all behind it move up by one.
    if number < total and number >= _number_of(state.first, setting):
        number += 1
    state = replace(state, trials=trials)
    if number >= total:
        return state, settle(trials, "all were tried")
    found = configuration_at(setting.blocks, setting.places, number)
    return state, propose_trial(setting, found, f"number {number} of {total}")


@lru_cache(maxsize=16)
def _number_of(configuration: Configuration, setting: Setting) -> int:
    """The number of a configuration, found by looking at those with the same places."""
    stages = len(configuration)
    number = sum(
        math.comb(setting.blocks - 1, k - 1) * len(_orders(setting.places, k))
        for k in range(1, stages)
    )
    cuts = math.comb(setting.blocks - 1, stages - 1)
    number += cuts * _orders(setting.places, stages).index(configuration.places)
    return number + _rank_of_cuts(setting.blocks - 1, configuration.ends[:-1])


def count_configurations(blocks: int, places: Sequence[Place]) -> int:
    """How many configurations there are: the design space."""
    if _all_apart(tuple(places)):
        most = min(blocks, len(places))
        return sum(
            math.comb(blocks - 1, k - 1) * math.perm(len(places), k) for k in range(1, most + 1)
        )
    return sum(
        math.comb(blocks - 1, k - 1) * len(_orders(tuple(places), k))
        for k in range(1, min(blocks, len(places)) + 1)
    )


def configuration_at(blocks: int, places: Sequence[Place], number: int) -> Configuration:
    """The configuration of a number below `count_configurations`."""
    for stages in range(1, min(blocks, len(places)) + 1):
        orders = _orders(tuple(places), stages)
        cuts = math.comb(blocks - 1, stages - 1)
        if number < cuts * len(orders):
            order, rest = divmod(number, cuts)
            return Configuration((*_cuts_at(blocks - 1, stages - 1, rest), blocks), orders[order])
        number -= cuts * len(orders)
    raise IndexError(number)


@lru_cache(maxsize=64)
def _all_apart(places: tuple[Place, ...]) -> bool:
    return sum(place.width for place in places) == len({c for p in places for c in p.cores})


@lru_cache(maxsize=64)
def _orders(places: tuple[Place, ...], stages: int) -> tuple[tuple[int, ...], ...]:
    """All ways to give `stages` stages places that share no core."""
    return tuple(
        order
        for order in permutations(range(len(places)), stages)
        if _all_apart(tuple(places[p] for p in order))
    )


def _cuts_at(most: int, count: int, number: int) -> tuple[int, ...]:
    """The combination of `count` of 1 .. most with that number, in lexical order."""
    found = []
    value = 1
    while len(found) < count:
        beyond = math.comb(most - value, count - len(found) - 1)
        if number < beyond:
            found.append(value)
        else:
            number -= beyond
        value += 1
    return tuple(found)


def _rank_of_cuts(most: int, cuts: Sequence[int]) -> int:
    """The number of a combination: the inverse of `_cuts_at`."""
    number, before = 0, 0
    for i, cut in enumerate(cuts):
        left = len(cuts) - i - 1
        number += sum(math.comb(most - value, left) for value in range(before + 1, cut))
        before = cut
    return number


SEARCH = Searcher("exhaustive", begin, step)
