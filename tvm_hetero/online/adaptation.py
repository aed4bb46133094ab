"""Policies made of a search: when to begin it, and what to do once it has settled.

Some tune at the beginning, from a seed of their own (Shisha, Pipe-search and what they are compared
with), others keep the static configuration until something happens (LLS, ODIN). Both watch what
they have settled on, and search again from there when stages take longer or shorter than they did
(`tvm_hetero.online.detection`). The window that raised the alarm is the first trial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.detection import Alarm, Detector, after_search, detect, make_detector
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.own_plan import Arrangement, contiguous
from tvm_hetero.online.policy import Policy, Proposal, Setting, Turn
from tvm_hetero.online.search import Searcher

Seed = Callable[[Setting], Configuration]


@dataclass(frozen=True)
class _Adapting:
    """`inner` is the state of a search that goes on, begun at `here` because of `alarm`."""

    setting: Setting
    detector: Detector
    here: Configuration
    inner: Any = None
    alarm: Alarm | None = None


def adaptive_policy(search: Searcher, seed: Seed | None = None) -> Policy:
    """A policy that searches from a seed at once, or without one when something happens."""
    return Policy(search.name, partial(_begin, search, seed), partial(_step, search))


def _begin(search: Searcher, seed: Seed | None, setting: Setting) -> Turn:
    first = setting.static if seed is None else seed(setting)
    state = _Adapting(setting, make_detector(setting), first)
    if seed is None:
        return state, keep(setting, first, "the static configuration, for a baseline")
    inner, proposal = search.begin(setting, first)
    return replace(state, inner=inner), proposal


def keep(setting: Setting, configuration: Arrangement, why: str) -> Proposal:
    """Watch on."""
    return Proposal(configuration, setting.window, "keep", why)


def _step(search: Searcher, state: _Adapting, observation: Observation) -> Turn:
    if state.inner is not None:
        return _go_on(search, state, observation)
    detector, alarm = detect(state.detector, observation)
    state = replace(state, detector=detector)
    if alarm is None:
        return state, keep(state.setting, state.here, "nothing has changed")
    inner, _ = search.begin(state.setting, state.here)
    turn = _go_on(search, replace(state, inner=inner, alarm=alarm), observation)
    return turn[0], replace(turn[1], why=f"{alarm.text()}: {turn[1].why}")


def _go_on(search: Searcher, state: _Adapting, observation: Observation) -> Turn:
    """Give a trial to the search; where it settled, watch what it settled on."""
    inner, proposal = search.step(state.inner, observation)
    if proposal.searching:
        return replace(state, inner=inner), proposal
    found = contiguous(proposal.configuration)
    gained = found != state.here
    detector = after_search(state.detector, state.alarm, gained=gained)
    state = _Adapting(state.setting, detector, found)
    return state, proposal
