"""Hill climbing: all steps from where it stands are tried, the best one is taken; a baseline."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_hetero.online.configuration import Configuration, neighbours
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Setting, Turn
from tvm_hetero.online.search import Searcher, Trials, propose_trial, settle


@dataclass(frozen=True)
class _HillClimb:
    """`waiting`: steps from `top`, the best one before this round, that are still to be tried."""

    trials: Trials
    top: Configuration
    waiting: tuple[Configuration, ...] = ()


def begin(setting: Setting, first: Configuration) -> Turn:
    """Try a configuration, then all around it."""
    return _HillClimb(Trials(setting, first), first), propose_trial(
        setting, first, "the first trial"
    )


def step(state: _HillClimb, observation: Observation) -> Turn:
    """Try the next one around; from the best of them go on, or stop where none is better."""
    trials = state.trials.add(observation)
    state = replace(state, trials=trials)
    if not state.waiting:
        if trials.best == state.top and trials.count > 1:
            return state, settle(trials, "no step is better")
        around = neighbours(trials.best, trials.setting.places)
        new = tuple(dict.fromkeys(c for c in around if c not in trials.seen))
        state = replace(state, top=trials.best, waiting=new)
        if not new:
            return state, settle(trials, "every step was tried")
    found, rest = state.waiting[0], state.waiting[1:]
    why = f"one of {len(state.waiting)} steps"
    return replace(state, waiting=rest), propose_trial(trials.setting, found, why)


SEARCH = Searcher("hill-climbing", begin, step)
