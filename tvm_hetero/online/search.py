"""Searches: what tries configurations one after the other, and settles on the best one it saw.

A *search* is a policy that ends: it begins anywhere, and every proposal but its last one is a
trial. Policies are made of searches and of when to begin one (`tvm_hetero.online.adaptation`).

What all of them count is in `Trials`. A rate is *better* than another where it is more than the
setting's margin above it; `failures` are trials in a row that were not (the papers' gamma).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.observation import Observation
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
    best, rate : the best configuration and its requests/s (0 before the first trial).
    count : trials so far; failures : those since the last better one.
    seen : what was tried.
    """

    setting: Setting
    best: Configuration
    rate: float = 0.0
    count: int = 0
    failures: int = 0
    seen: frozenset[Configuration] = frozenset()

    def add(self, observation: Observation) -> Trials:
        """Count a trial."""
        tried = contiguous(observation.configuration)
        after = replace(self, count=self.count + 1, seen=self.seen | {tried})
        if self.is_better(observation.rate):
            return replace(after, best=tried, rate=observation.rate, failures=0)
        return replace(after, failures=self.failures + 1)

    def is_better(self, rate: float) -> bool:
        """Whether a rate is better than the best one so far."""
        return rate > self.rate * (1 + self.setting.margin)

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
