"""Searches: what tries configurations one after the other, and settles on the best one it saw.

A *search* is a policy that ends: it begins anywhere, and every proposal but its last one is a
trial. Policies are made of searches and of when to begin one (`tvm_hetero.online.adaptation`).

What all of them count is in `Trials`. A rate is *better* than another where it is more than the
setting's margin above it; `failures` are trials in a row that were not (the papers' gamma).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.observation import Observation, comparable_rates
from tvm_hetero.online.own_plan import Arrangement, contiguous
from tvm_hetero.online.policy import Proposal, Setting, Turn


class Searcher(NamedTuple):
    """A search: `begin` tries the given configuration first, `step` goes on from what was seen."""

    name: str
    begin: Callable[[Setting, Configuration], Turn]
    step: Callable[[Any, Observation], Turn]


@dataclass(frozen=True)
class Trials:
    """What a search has seen so far.

    Attributes
    ----------
    best : the best configuration; window : what was seen of it, None before the first trial.
    count : trials so far; failures : those since the last better one.
    seen : what was tried.
    """

    setting: Setting
    best: Configuration
    window: Observation | None = None
    count: int = 0
    failures: int = 0
    seen: frozenset[Configuration] = frozenset()

    def add(self, observation: Observation) -> Trials:
        """Count a trial."""
        tried = contiguous(observation.configuration)
        after = replace(self, count=self.count + 1, seen=self.seen | {tried})
        if self.gain(observation) > self.setting.margin:
            return replace(after, best=tried, window=observation, failures=0)
        return replace(after, failures=self.failures + 1)

    def gain(self, observation: Observation) -> float:
        """By which share a window's rate is above the best one's; infinite: it is the first."""
        if self.window is None:
            return math.inf
        rate, best = comparable_rates(observation, self.window)
        return rate / best - 1

    @property
    def rate(self) -> float:
        """Requests/s of the best one; 0 before the first trial."""
        return 0.0 if self.window is None else self.window.rate

    @property
    def exhausted(self) -> bool:
        """Whether alpha trials in a row were in vain."""
        return self.failures >= self.setting.alpha


def propose_trial(setting: Setting, configuration: Arrangement, why: str) -> Proposal:
    """Try a configuration."""
    return Proposal(configuration, setting.trial, "try", why)


def settle(trials: Trials, why: str) -> Proposal:
    """End a search with the best it saw."""
    found = f"{trials.rate:.4g}/s after {trials.count} trials"
    return Proposal(trials.best, trials.setting.window, "settled", f"{why}; best {found}")
