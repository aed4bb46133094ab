"""LLS, the least loaded scheduler: what ODIN's authors compare with, as they are remembered.

The utilisation of stage i is v_i = 1 - w_i / (t_i + w_i), where t_i is its time and w_i what it
waits for a request. In a pipeline that always has work, t_i + w_i is the slowest stage's time,
so the most utilised stage is the slowest one. A block goes from the most to the least utilised
stage again and again, until the throughput begins to fall; then the step before counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Setting, Turn
from tvm_hetero.online.search import Searcher, Trials, propose_trial, settle
from tvm_hetero.online.slots import Slots, slots_of


@dataclass(frozen=True)
class _Lls:
    trials: Trials
    slots: Slots


def begin(setting: Setting, first: Configuration) -> Turn:
    """Try a configuration, then move blocks from its most utilised stage."""
    state = _Lls(Trials(setting, first), slots_of(first, setting.places))
    return state, propose_trial(setting, first, "the first trial")


def step(state: _Lls, observation: Observation) -> Turn:
    """Move one more block, unless the last move made things worse."""
    fell = state.trials.gain(observation) < 0
    trials = state.trials.add(observation)
    if fell:
        return replace(state, trials=trials), settle(trials, "the throughput begins to fall")
    times = state.slots.times(observation)
    most = max(range(len(times)), key=lambda s: (times[s], -s))
    least = min(range(len(times)), key=lambda s: (times[s], s))
    slots = state.slots.give(most, least)
    if most == least or slots.configuration in trials.seen:
        return replace(state, trials=trials), settle(trials, "all stages are utilised alike")
    why = f"a block from stage {most}, the most utilised, to stage {least}"
    return _Lls(trials, slots), propose_trial(trials.setting, slots.configuration, why)


SEARCH = Searcher("lls", begin, step)
