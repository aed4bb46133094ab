"""Random walk: one step anywhere after the other, the best one seen is kept; a baseline."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.own_plan import contiguous
from tvm_hetero.online.policies.random_steps import random_neighbour
from tvm_hetero.online.policy import Setting, Turn
from tvm_hetero.online.search import Searcher, Trials, propose_trial, settle

# It has no sign that tells it to stop: that many times alpha trials without gain.
_PATIENCE = 10


@dataclass(frozen=True)
class _RandomWalk:
    trials: Trials
    here: Configuration


def begin(setting: Setting, first: Configuration) -> Turn:
    """Try a configuration, and walk on from it."""
    return _RandomWalk(Trials(setting, first), first), propose_trial(
        setting, first, "the first trial"
    )


def step(state: _RandomWalk, observation: Observation) -> Turn:
    """One step further, whatever the last one brought."""
    trials = state.trials.add(observation)
    setting = trials.setting
    found = random_neighbour(setting, contiguous(observation.configuration), trials.count)
    if trials.failures >= _PATIENCE * setting.alpha or found is None:
        return _RandomWalk(trials, state.here), settle(trials, "nothing better for a long time")
    return _RandomWalk(trials, found), propose_trial(setting, found, "a random step")


SEARCH = Searcher("random-walk", begin, step)
