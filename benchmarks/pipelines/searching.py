"""Searches in quiet: Pipe-search on moldable places, Shisha on fast and slow ones.

A trial costs the requests that it watches at the pace of its configuration. The time of a search is
that until its first configuration within 5 % of the best (Pipe-search's yardstick), or until the
one that it settles on (Shisha's convergence). Random walk draws from all configurations, without
putting back; it and exhaustive search are computed over all of them at once.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pipelines.tables import KINDS, computed_table
from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.optimum import bottleneck, find_optimum, stage_seconds
from tvm_hetero.online.policies import make_policy
from tvm_hetero.online.policies.exhaustive import configuration_at, count_configurations
from tvm_hetero.online.policies.pipe_search import list_orders
from tvm_hetero.online.policy import Policy, Setting
from tvm_hetero.online.table import Recording

Row = dict[str, Any]
NEAR = 0.95
_MOST_WINDOWS = 5000
_DRAWS = 20


class Trial(NamedTuple):
    """One window of a search: the configuration's rate, and seconds that it took."""

    configuration: Configuration
    rate: float
    seconds: float


def trials_of(
    policy: Policy, setting: Setting, *, hints: bool = True
) -> tuple[list[Trial], Configuration]:
    """All trials of a search on the setting's own seconds, and what it settled on.

    With `hints` the policy does not know the seconds, but weights and speeds only.
    """
    seconds = setting.seconds
    assert seconds is not None
    state, proposal = policy.begin(replace(setting, seconds=None) if hints else setting)
    found: list[Trial] = []
    while len(found) < _MOST_WINDOWS:
        times = stage_seconds(seconds, proposal.configuration)
        rate = 1 / max(times)
        span = proposal.requests / rate
        stages = tuple(map(StageTime, times))
        seen = Observation(proposal.configuration, proposal.requests, span, rate, stages)
        found.append(Trial(proposal.configuration, rate, span))
        state, proposal = policy.step(state, seen)
        if proposal.phase == "settled":
            break
    return found, proposal.configuration


def seconds_until(trials: Sequence[Trial], rate: float) -> float:
    """Online time until the first trial of at least that rate; infinite if there is none."""
    total = 0.0
    for trial in trials:
        total += trial.seconds
        if trial.rate >= rate * (1 - 1e-9):
            return total
    return math.inf


# -------------------------------------------------------------------------------- Pipe-search


def tx2_places() -> tuple[Place, ...]:
    """Teams of one, two and four cores of the clusters of a Jetson TX2."""
    spans = [("denver", 0, 2), ("a57", 2, 4)]
    return tuple(
        Place(f"{kind}{begin}x{width}", kind, tuple(range(begin, begin + width)))
        for kind, first, count in spans
        for width in (1, 2, 4)
        if width <= count
        for begin in range(first, first + count - width + 1, width)
    )


def pipe_search_row(network: str, alpha: int = 10) -> Row:
    """Pipe-search beside exhaustive search and random walk."""
    recording = computed_table(network, "denver", "a57")
    places = tx2_places()
    seconds = recording.seconds_on(places)
    hints = tuple(KINDS[p.kind].pace * p.width for p in places)
    blocks = len(recording.blocks)
    static = Configuration((blocks,), (0,))
    setting = Setting(places, recording.weights, static, seconds, hints, recording.bounds, alpha)
    rates = all_rates(setting)
    best = float(rates.max())
    trials, settled = trials_of(make_policy("pipe-search"), setting)
    own = seconds_until(trials, NEAR * best)
    return {
        "measure": "pipe-search", "network": network, "space": len(rates),
        "trials": len(trials), "reached": 1 / bottleneck(seconds, settled) / best,
        "near": sum(trial.rate >= NEAR * best for trial in trials) / len(trials),
        "exhaustive": _until(rates, setting, best) / own,
        "random": _random_until(rates, setting, best) / own,
    } | _resolve_figures(setting, best)  # fmt: skip


def _resolve_figures(setting: Setting, best: float) -> Row:
    """What `resolve` reaches, and with how many trials: by measured seconds, and by hints alone."""
    found: Row = {}
    seconds = setting.seconds
    assert seconds is not None
    for key, hints in (("resolve", False), ("resolve_hints", True)):
        trials, settled = trials_of(make_policy("resolve"), setting, hints=hints)
        found[key] = 1 / bottleneck(seconds, settled) / best
        found[f"{key}_trials"] = len(trials) - setting.patience
    return found


def all_rates(setting: Setting) -> np.ndarray:
    """Requests/s of every configuration, alike places used in one way, by numbers of stages."""
    seconds = np.array(setting.seconds)
    blocks = len(seconds)
    sums = np.vstack([np.zeros(seconds.shape[1]), np.cumsum(seconds, axis=0)])
    found = []
    orders = sorted(list_orders(setting), key=len)
    cuts: dict[int, np.ndarray] = {}
    for order in orders:
        k = len(order)
        if k not in cuts:
            inner = np.array(list(combinations(range(1, blocks), k - 1)), dtype=int)
            ends = [np.zeros((len(inner), 1), int), inner, np.full((len(inner), 1), blocks)]
            cuts[k] = np.hstack(ends)
        loads = [sums[cuts[k][:, s + 1], p] - sums[cuts[k][:, s], p] for s, p in enumerate(order)]
        found.append(1 / np.max(loads, axis=0))
    return np.concatenate(found)


def _until(rates: np.ndarray, setting: Setting, best: float) -> float:
    """Seconds of trying in this order until one is near the best."""
    first = int(np.argmax(rates >= NEAR * best * (1 - 1e-9)))
    return float(setting.trial * (1 / rates[: first + 1]).sum())


def _random_until(rates: np.ndarray, setting: Setting, best: float) -> float:
    draws = np.random.default_rng(0)
    times = [_until(draws.permutation(rates), setting, best) for _ in range(_DRAWS)]
    return statistics.fmean(times)


# ------------------------------------------------------------------------------------- Shisha


def shisha_row(network: str, fast: int, slow: int, alpha: int = 10) -> Row:
    """Shisha beside annealing, hill climbing and Pipe-search, all on fast and slow places."""
    recording = computed_table(network, "fast", "slow")
    setting = _shisha_setting(recording, fast, slow, alpha)
    seconds = setting.seconds
    assert seconds is not None
    best = 1 / find_optimum(seconds, setting.places).bottleneck
    space = count_configurations(setting.blocks, setting.places)
    row: Row = {"measure": "shisha", "network": network, "fast": fast, "slow": slow,
                "space": float(space)}  # fmt: skip
    trials, settled = trials_of(make_policy("shisha"), setting)
    own = seconds_until(trials, 1 / bottleneck(seconds, settled))
    row |= {"trials": len(trials), "explored": len(trials) / space,
            "reached": 1 / bottleneck(seconds, settled) / best}  # fmt: skip
    for name in ("annealing", "hill-climbing", "pipe-search"):
        ratios, reached = [], []
        for start in _starts(setting, name):
            other, end = trials_of(make_policy(name), start)
            rate = 1 / bottleneck(seconds, end)
            ratios.append(seconds_until(other, rate) / own)
            reached.append(rate / best)
        row[name] = statistics.fmean(ratios)
        row[f"{name}_reached"] = statistics.fmean(reached)
    return row | _resolve_figures(setting, best)


def _shisha_setting(recording: Recording, fast: int, slow: int, alpha: int) -> Setting:
    kinds = ["fast"] * fast + ["slow"] * slow
    places = tuple(
        Place(f"{kind}{i}", kind, tuple(range(8 * i, 8 * i + 8))) for i, kind in enumerate(kinds)
    )
    hints = tuple(KINDS[place.kind].pace for place in places)
    blocks = len(recording.blocks)
    static = Configuration((blocks,), (0,))
    seconds = recording.seconds_on(places)
    return Setting(places, recording.weights, static, seconds, hints, recording.bounds, alpha)


def _starts(setting: Setting, name: str) -> Iterator[Setting]:
    """The others begin anywhere, three times; Pipe-search has its own seed."""
    if name == "pipe-search":
        yield setting
        return
    for seed in range(3):
        number = random.Random(seed).randrange(count_configurations(setting.blocks, setting.places))
        static = configuration_at(setting.blocks, setting.places, number)
        yield replace(setting, static=static, seed=seed)
