"""ODIN's rebalancing, after the paper of that name (Euro-Par 2023, arXiv:2306.01679).

What is fact in it and what recollection: docs/online.md. One rebalancing, begun where a stage takes
longer or shorter than it did:

    a            the affected stage: the slowest                              -> `step`
    direction    of the sides left and right of a, the one whose stages take less in all; only
                 one side at the ends (heuristic 1)                           -> `_lightest`
    move         one block from a towards the lightest stage of that side
    keep         where the throughput is better; where it is no other, the block goes on, so that
                 a plateau does not end the search (heuristic 2)
    stop         after alpha moves in a row without gain; the best one seen is used

Requests go on flowing while moves are tried, where the paper has them one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Setting, Turn
from tvm_hetero.online.search import Searcher, Trials, propose_trial, settle
from tvm_hetero.online.slots import Slots, slots_of


@dataclass(frozen=True)
class _Odin:
    """`plateau`: moves in a row that changed nothing, of which there may be as many as stages."""

    trials: Trials
    slots: Slots
    plateau: int = 0


def begin(setting: Setting, first: Configuration) -> Turn:
    """Try a configuration, then relieve its slowest stage."""
    state = _Odin(Trials(setting, first), slots_of(first, setting.places))
    return state, propose_trial(setting, first, "the first trial")


def step(state: _Odin, observation: Observation) -> Turn:
    """Judge the last move and make the next one."""
    before, plateau = state.trials, 0
    trials = before.add(observation)
    if _is_equal(observation, before) and state.plateau < len(state.slots.order):
        trials, plateau = replace(trials, failures=before.failures), state.plateau + 1
    if trials.exhausted:
        return _Odin(trials, state.slots), settle(trials, "alpha moves in a row gained nothing")
    times = state.slots.times(observation)
    affected = max(range(len(times)), key=lambda s: (times[s], -s))
    target = _target(times, affected)
    if target is None:
        return _Odin(trials, state.slots), settle(trials, "there is one stage only")
    slots = state.slots.give(affected, target)
    why = f"a block from stage {affected}, the slowest, towards stage {target}"
    turn = propose_trial(trials.setting, slots.configuration, why)
    return _Odin(trials, slots, plateau), turn


def _is_equal(observation: Observation, trials: Trials) -> bool:
    """Whether a rate is neither better nor worse than the best one so far."""
    return abs(trials.gain(observation)) <= trials.setting.margin


def _target(times: Sequence[float], affected: int) -> int | None:
    """The lightest stage on the side with less to do in all; None if there is no other stage."""
    left, right = range(affected), range(affected + 1, len(times))
    sides: list[range] = [side for side in (left, right) if len(side)]
    if not sides:
        return None
    side = min(sides, key=lambda side: sum(times[s] for s in side))
    return _lightest(times, side)


def _lightest(times: Sequence[float], stages: Iterable[int]) -> int:
    return min(stages, key=lambda s: (times[s], s))


SEARCH = Searcher("odin", begin, step)
