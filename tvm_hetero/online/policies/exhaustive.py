"""Exhaustive search: every configuration is tried, one after the other; the papers' yardstick.

Configurations are numbered: first by the number of stages K, then by the places of the stages,
then by where the K - 1 cuts are. A trial is made of its number alone, so that nothing has to be
kept of a space of millions (`configuration_at`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations

from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Setting, Turn
from tvm_hetero.online.search import Searcher, Trials, propose_trial, settle


def begin(setting: Setting, first: Configuration) -> Turn:
    """Begin with a configuration, then all there are, that one again among them."""
    return Trials(setting, first), propose_trial(setting, first, "the first trial")


def step(state: Trials, observation: Observation) -> Turn:
    """Go on with the next number."""
    setting = state.setting
    trials = replace(state.add(observation), seen=frozenset())  # not kept: there are too many
    number, total = state.count, count_configurations(setting.blocks, setting.places)
    if number >= total:
        return trials, settle(trials, "all were tried")
    found = configuration_at(setting.blocks, setting.places, number)
    return trials, propose_trial(setting, found, f"number {number} of {total}")


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
    found: list[int] = []
    value = 1
    while len(found) < count:
        beyond = math.comb(most - value, count - len(found) - 1)
        if number < beyond:
            found.append(value)
        else:
            number -= beyond
        value += 1
    return tuple(found)


SEARCH = Searcher("exhaustive", begin, step)
