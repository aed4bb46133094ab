"""Pipe-search: moldable stages, a database of candidates from hints, trials guided by it.

After P. N. Soomro, M. Abduljabbar, J. Castrillon, M. Pericas: An online guided tuning approach to
run CNN pipelines on edge devices (CF 2021). What is fact in it and what recollection:
docs/online.md.

    database    of every way to use places (teams of cores of some widths) one after the other, the
                cuts with the least hinted bottleneck; of each number of stages the most even
                ones are kept                                                -> `make_database`
    population  the first candidate of each of the best numbers of stages, tried once each
    evolution   children of the best one tried: one step away, teams regrouped within a cluster, and
                the first of the database that was not tried; the child with the least PREDICTED
                bottleneck is tried. Each trial says how fast kinds and widths are -> `Speeds`

It ends after alpha trials in a row without gain, or close to what is possible at those speeds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tvm_hetero.online.configuration import Configuration, Place, neighbours
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.optimum import bottleneck, find_optimum, stage_seconds
from tvm_hetero.online.own_plan import contiguous
from tvm_hetero.online.policy import Setting, Turn
from tvm_hetero.online.search import Searcher, Trials, propose_trial, settle
from tvm_hetero.views.array_types import FloatArray

# Candidates that are kept of each number of stages, and how many numbers are in the population.
_BEAM, _POPULATION = 32, 4
# Ways to use places that are looked at, of those there are.
_MOST_ORDERS = 4000
# What is this close to the predicted optimum is as good as it.
_CLOSE = 0.02
# Speed of a (kind, width), in hinted work a second.
Speeds = tuple[tuple[tuple[str, int], float], ...]


@dataclass(frozen=True)
class _PipeSearch:
    """`waiting`: what of the population is still to be tried."""

    trials: Trials
    database: tuple[Configuration, ...]
    waiting: tuple[Configuration, ...]
    speeds: Speeds


def begin(setting: Setting, first: Configuration) -> Turn:
    """Make the database and try a configuration."""
    database = make_database(setting)
    best: dict[int, Configuration] = {}
    for candidate in database:
        best.setdefault(len(candidate), candidate)
    waiting = tuple(c for c in list(best.values())[:_POPULATION] if c != first)
    state = _PipeSearch(Trials(setting, first), database, waiting, ())
    return state, propose_trial(setting, first, "the first trial")


def step(state: _PipeSearch, observation: Observation) -> Turn:
    """Learn speeds from a trial and choose the next one."""
    trials = state.trials.add(observation)
    setting = trials.setting
    speeds = _learn(setting, state.speeds, observation)
    state = replace(state, trials=trials, speeds=speeds)
    if state.waiting:
        found, rest = state.waiting[0], state.waiting[1:]
        why = f"the most even hinted one of {len(found)} stages"
        return replace(state, waiting=rest), propose_trial(setting, found, why)
    if trials.exhausted:
        return state, settle(trials, "alpha trials in a row gained nothing")
    predicted = _predicted(setting, speeds)
    bound = find_optimum(predicted, setting.places, trials.best).bottleneck
    if trials.window is not None and bound >= (1 - _CLOSE) * max(trials.window.times):
        return state, settle(trials, "close to what the places' speeds admit")
    children = [c for c in _children(state, predicted) if c not in trials.seen]
    if not children:
        return state, settle(trials, "every child was tried")
    found = min(children, key=lambda c: bottleneck(predicted, c))
    return state, propose_trial(setting, found, "the child with the least predicted bottleneck")


def _children(state: _PipeSearch, predicted: Sequence[Sequence[float]]) -> list[Configuration]:
    """What may come next, each once, in a fixed order."""
    setting, parent = state.trials.setting, state.trials.best
    found = [*neighbours(parent, setting.places), *_regroup(parent, setting.places)]
    new = [c for c in state.database if c not in state.trials.seen]
    if new:
        found.append(min(new, key=lambda c: bottleneck(predicted, c)))
    return list(dict.fromkeys(found))


def _regroup(parent: Configuration, places: Sequence[Place]) -> Iterator[Configuration]:
    """A stage on a wider team, whose cores others give: one gets a narrower team, or goes away.

    The stage that goes away is next to the one that grows, which takes its blocks.
    """
    for s, p in enumerate(parent.places):
        wider = [q for q, place in enumerate(places) if set(place.cores) > set(places[p].cores)]
        for q in wider:
            touched = [
                t for t, r in enumerate(parent.places) if t != s and places[r].excludes(places[q])
            ]
            if len(touched) != 1:
                continue
            (t,) = touched
            cores = set(places[parent.places[t]].cores) - set(places[q].cores)
            for r, place in enumerate(places):
                if place.kind == places[q].kind and cores >= set(place.cores):
                    used = [
                        r if i == t else q if i == s else e for i, e in enumerate(parent.places)
                    ]
                    yield Configuration(parent.ends, tuple(used))
            if abs(s - t) == 1:
                first = min(s, t)
                used = [*parent.places[:first], q, *parent.places[first + 2 :]]
                ends = parent.ends[:first] + parent.ends[first + 1 :]
                yield Configuration(ends, tuple(used))


# ---------------------------------------------------------------------------------- the speeds


def _learn(setting: Setting, speeds: Speeds, observation: Observation) -> Speeds:
    """The speeds after a trial; the newest one counts."""
    found = dict(speeds)
    configuration = contiguous(observation.configuration)
    for (a, b), p, seconds in zip(
        configuration.ranges, configuration.places, observation.times, strict=True
    ):
        place = setting.places[p]
        work = sum(setting.weights[a:b])
        if work > 0:
            found[place.kind, place.width] = work / seconds
    return tuple(sorted(found.items()))


def _predicted(setting: Setting, speeds: Speeds) -> tuple[tuple[float, ...], ...]:
    """seconds[block][place] at the speeds; unseen ones are hinted, in the unit of the seen ones."""
    known, hints = dict(speeds), setting.hinted_speeds
    keys = [(place.kind, place.width) for place in setting.places]
    ratios = [known[key] / hint for key, hint in zip(keys, hints, strict=True) if key in known]
    unit = sum(ratios) / len(ratios) if ratios else 1.0
    speed = [known.get(key, hint * unit) for key, hint in zip(keys, hints, strict=True)]
    tiny = 1e-9 * max(setting.weights)
    return tuple(tuple(max(weight, tiny) / s for s in speed) for weight in setting.weights)


# -------------------------------------------------------------------------------- the database


@lru_cache(maxsize=4)
def make_database(setting: Setting) -> tuple[Configuration, ...]:
    """Candidates by hints, the most even ones first; at most `_BEAM` of each number of stages."""
    predicted = _predicted(setting, ())
    loads = np.cumsum([[0.0] * len(setting.places), *predicted], axis=0)
    rated = []
    for order in list_orders(setting):
        found = _cut(loads, order)
        times = np.array(stage_seconds(predicted, found))
        rated.append((float(times.max()), float(times.std() / times.mean()), found.places, found))
    rated.sort(key=lambda row: row[:3])
    kept: dict[int, list[Configuration]] = {}
    for *_, found in rated:
        row = kept.setdefault(len(found), [])
        if len(row) < _BEAM and found not in row:
            row.append(found)
    chosen = {found for row in kept.values() for found in row}
    return tuple(dict.fromkeys(found for *_, found in rated if found in chosen))


def list_orders(setting: Setting) -> list[tuple[int, ...]]:
    """Ways to use places one after the other; of alike places (kind and width) the first free one.

    Where there are too many, as many as may be are drawn.
    """
    places, found = setting.places, list[tuple[int, ...]]()
    waiting: list[tuple[int, ...]] = [()]
    draw = random.Random(setting.seed)
    while waiting and len(found) < _MOST_ORDERS:
        if len(waiting) > _MOST_ORDERS:
            order = waiting.pop(draw.randrange(len(waiting)))
        else:
            order = waiting.pop(0)
        if order:
            found.append(order)
        if len(order) < setting.blocks:
            waiting += [(*order, p) for p in _next_places(order, places)]
    return found


def _next_places(order: Sequence[int], places: Sequence[Place]) -> Iterator[int]:
    seen: set[tuple[str, int]] = set()
    for p, place in enumerate(places):
        key = (place.kind, place.width)
        if key not in seen and not any(place.excludes(places[q]) for q in order):
            seen.add(key)
            yield p


def _cut(loads: FloatArray, order: Sequence[int]) -> Configuration:
    """The cuts with the least bottleneck for places in that order, none of them idle."""
    blocks = len(loads) - 1
    value = np.full(blocks + 1, np.inf)
    value[0] = 0.0
    upper = np.triu(np.ones((blocks + 1, blocks + 1), dtype=bool), 1)
    origins = []
    for place in order:
        column = loads[:, place]
        span = np.where(upper, column[None, :] - column[:, None], np.inf)
        reached = np.maximum(value[:, None], span)
        origins.append(reached.argmin(axis=0))
        value = reached.min(axis=0)
    ends = [blocks]
    for origin in reversed(origins[1:]):
        ends.append(int(origin[ends[-1]]))
    return Configuration(tuple(reversed(ends)), tuple(order))


SEARCH = Searcher("pipe-search", begin, step)
