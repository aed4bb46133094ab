"""Shisha: a seed from hints, then blocks move away from the slowest stage; after the paper.

Shisha: Online Scheduling of CNN Pipelines on Heterogeneous Architectures (PPAM 2022,
arXiv:2202.11575). What is fact in it and what recollection: docs/online.md. Execution places (EP)
are fast (FEP) or slow; N of them run stages.

    seed    blocks alone; the lightest stage is joined with its lighter neighbour until N are
            left; stages get places by `Assignment`                              -> `seed_of`
    tune    one block moves from the slowest stage towards a stage on a fast place, chosen by
            `Balance`, through all between; until alpha moves in a row gained nothing

    rank_w  the heaviest stage gets the fastest place     nFEP   the nearest stage on a fast place
    rank_l  that with the most blocks gets it             lFEP   the one that takes the least time
    random  any                                           nlFEP  of the nearest on each side that

Ours: seeds of N, N - 1, .. 1 stages are compared by their hinted bottleneck; a place is fast from
0.9 of the fastest one's speed on; a configuration that was tried is not tried again, the next
target is; and where fast ones are used up, slow ones are targets.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Literal

from tvm_hetero.errors import UsageError
from tvm_hetero.online.configuration import Configuration, move
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.own_plan import contiguous
from tvm_hetero.online.policy import Setting, Turn
from tvm_hetero.online.search import Searcher, Trials, propose_trial, settle

Assignment = Literal["rank_w", "rank_l", "random"]
Balance = Literal["nFEP", "lFEP", "nlFEP"]
ASSIGNMENTS: tuple[Assignment, ...] = ("rank_w", "rank_l", "random")
BALANCES: tuple[Balance, ...] = ("nFEP", "lFEP", "nlFEP")
# A place is fast from this share of the fastest one's speed on.
_FAST = 0.9


@dataclass(frozen=True)
class _Shisha:
    trials: Trials
    balance: Balance


# ------------------------------------------------------------------------------------ the seed


def seed_of(setting: Setting, assignment: Assignment = "rank_w") -> Configuration:
    """The configuration to begin with: of the seeds of all numbers of stages the best hinted one.

    Raises
    ------
    UsageError
        If there is no such assignment.
    """
    if assignment not in ASSIGNMENTS:
        raise UsageError(f"assignment: expected one of {ASSIGNMENTS}, got {assignment!r}")
    ranked = _ranked_places(setting)
    speeds = setting.hinted_speeds
    lengths = [1] * setting.blocks
    best: tuple[float, Configuration] | None = None
    while lengths:
        if len(lengths) <= len(ranked):
            found = _assign(setting, lengths, ranked, assignment)
            slowest = max(
                sum(setting.weights[a:b]) / speeds[place]
                for (a, b), place in zip(found.ranges, found.places, strict=True)
            )
            if best is None or slowest < best[0]:
                best = slowest, found
        lengths = _join_lightest(setting.weights, lengths)
    assert best is not None
    return best[1]


def _ranked_places(setting: Setting) -> list[int]:
    """Places from fast to slow; one that shares a core with a faster one is left out."""
    places, speeds = setting.places, setting.hinted_speeds
    found: list[int] = []
    for p in sorted(range(len(places)), key=lambda p: (-speeds[p], p)):
        if not any(places[p].excludes(places[other]) for other in found):
            found.append(p)
    return found


def _join_lightest(weights: Sequence[float], lengths: Sequence[int]) -> list[int]:
    """The lightest stage joined with its lighter neighbour; nothing if there is one stage only."""
    if len(lengths) == 1:
        return []
    loads = _loads(weights, lengths)
    s = min(range(len(loads)), key=lambda s: (loads[s], s))
    beside = [t for t in (s - 1, s + 1) if 0 <= t < len(loads)]
    first = min(s, min(beside, key=lambda t: (loads[t], t)))
    return [*lengths[:first], lengths[first] + lengths[first + 1], *lengths[first + 2 :]]


def _loads(weights: Sequence[float], lengths: Sequence[int]) -> list[float]:
    ends = list(accumulate(lengths))
    return [sum(weights[end - n : end]) for end, n in zip(ends, lengths, strict=True)]


def _assign(
    setting: Setting, lengths: Sequence[int], ranked: Sequence[int], assignment: Assignment
) -> Configuration:
    """The k-th heaviest (or longest) stage on the k-th fastest place."""
    loads = _loads(setting.weights, lengths)
    order = list(range(len(lengths)))
    if assignment == "random":
        random.Random(setting.seed).shuffle(order)
    else:
        sizes: Sequence[float] = loads if assignment == "rank_w" else lengths
        order.sort(key=lambda s: (-sizes[s], s))
    places = [0] * len(lengths)
    for s, place in zip(order, ranked, strict=False):
        places[s] = place
    return Configuration(tuple(accumulate(lengths)), tuple(places))


# ---------------------------------------------------------------------------------- the tuning


def begin(setting: Setting, first: Configuration, balance: Balance = "nlFEP") -> Turn:
    """Try a configuration, then relieve its slowest stage."""
    why = "the first trial: stages of balanced weight"
    return _Shisha(Trials(setting, first), balance), propose_trial(setting, first, why)


def step(state: _Shisha, observation: Observation) -> Turn:
    """Judge the last move and make the next one."""
    trials = state.trials.add(observation)
    state = replace(state, trials=trials)
    if trials.exhausted:
        return state, settle(trials, "alpha moves in a row gained nothing")
    slowest = observation.bottleneck
    for target in _targets(trials.setting, observation, slowest, state.balance):
        found = move(contiguous(observation.configuration), slowest, target)
        if found not in trials.seen:
            why = f"a block from stage {slowest}, the slowest, towards stage {target}"
            return state, propose_trial(trials.setting, found, why)
    return state, settle(trials, "every move from the slowest stage was tried")


def _targets(
    setting: Setting, observation: Observation, source: int, balance: Balance
) -> Iterator[int]:
    """Stages on fast places, the one to try first first; then those on slow ones."""
    times, speeds = observation.times, setting.hinted_speeds
    fastest = max(speeds)
    others = [s for s in range(len(times)) if s != source]
    on = observation.configuration.places
    fast = [s for s in others if speeds[on[s]] >= _FAST * fastest]
    slow = [s for s in others if s not in fast]
    for targets in (fast, slow):
        yield from _ranked_targets(targets, source, times, balance)


def _ranked_targets(
    targets: Sequence[int], source: int, times: Sequence[float], balance: Balance
) -> list[int]:
    if balance == "lFEP":
        return sorted(targets, key=lambda s: (times[s], s))
    by_distance = sorted(targets, key=lambda s: (abs(s - source), times[s], s))
    if balance == "nFEP":
        return by_distance
    left = [s for s in by_distance if s < source]
    right = [s for s in by_distance if s > source]
    nearest = sorted([*left[:1], *right[:1]], key=lambda s: (times[s], s))
    return [*nearest, *(s for s in by_distance if s not in nearest)]


def search_with(balance: Balance = "nlFEP") -> Searcher:
    """The tuning with a choice of targets.

    Raises
    ------
    UsageError
        If there is no such choice.
    """
    if balance not in BALANCES:
        raise UsageError(f"balance: expected one of {BALANCES}, got {balance!r}")
    return Searcher("shisha", partial(begin, balance=balance), step)
