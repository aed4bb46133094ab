"""Simulated annealing: random steps, worse ones taken with a chance that shrinks; a baseline.

S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi: Optimization by simulated annealing, Science 220
(1983), doi:10.1126/science.220.4598.671. Energy is the time between two requests; the first
temperature is a tenth of that of the first configuration, and it falls by 3 % a trial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.observation import Observation, comparable_rates
from tvm_hetero.online.own_plan import contiguous
from tvm_hetero.online.policies.random_steps import drawer, random_neighbour
from tvm_hetero.online.policy import Setting, Turn
from tvm_hetero.online.search import Searcher, Trials, propose_trial, settle

_WARM, _COOLING = 0.1, 0.97
# Trials after which the temperature is a thousandth of the first one.
_TRIALS = round(math.log(1e-3) / math.log(_COOLING))


@dataclass(frozen=True)
class _Annealing:
    """Where it stands, with what was seen there, and the slowest stage's seconds at first."""

    trials: Trials
    here: Configuration
    seen: Observation | None = None
    first: float = math.inf


def begin(setting: Setting, first: Configuration) -> Turn:
    """Try a configuration, and walk on from it."""
    why = "the first trial"
    return _Annealing(Trials(setting, first), first), propose_trial(setting, first, why)


def step(state: _Annealing, observation: Observation) -> Turn:
    """Take the step or go back, and step on."""
    trials = state.trials.add(observation)
    setting, seen = trials.setting, state.seen or observation
    first = max(observation.times) if state.seen is None else state.first
    temperature = _WARM * first * _COOLING**trials.count
    energy, now = (1.0 / rate for rate in comparable_rates(observation, seen))
    draw = drawer(setting, -trials.count)
    if energy <= now or draw.random() < math.exp((now - energy) / temperature):
        seen = observation
    here = contiguous(seen.configuration)
    state = _Annealing(trials, here, seen, first)
    found = random_neighbour(setting, here, trials.count)
    if trials.count > _TRIALS or found is None:
        return state, settle(trials, "it is cold")
    return state, propose_trial(setting, found, f"a random step at {temperature:.2g} s")


SEARCH = Searcher("annealing", begin, step)
