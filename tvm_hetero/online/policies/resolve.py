"""Resolve: estimate how slow each place is, solve for the best configuration exactly, try it.

Our own answer to what the papers' policies look for by trial. What is unknown while a pipeline runs
is only how much slower each place has become; given that, the best contiguous stages are found in
milliseconds (`tvm_hetero.online.optimum`).

    baseline   seconds in quiet, scaled so that static stages take what was seen -> `_calibrate`
    alarm      stage times against them: factors of each place            -> `estimate_factors`
    home       factors of about 1 again: straight back to the quiet configuration, no trial
    known      a disturbance that was seen before: what fitted it is tried first      -> `_recall`
    solve      the exact optimum for seconds times factors; tried if it promises enough
    refine     what the trial saw goes into the factors; solve again, try that; or half-way: the
               optimum for factors half as strong (their square roots)    -> `_candidates`
    settle     on the best one seen, after two trials at most

A place that is idle because it was slow says nothing when that ends, so now and then, ever more
seldom while it is in vain, a configuration that uses it again is tried            -> `_probe`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tvm_hetero.online.adaptation import keep
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.detection import Alarm, Detector, after_search, detect, make_detector
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.online.policy import Policy, Proposal, Setting, Turn
from tvm_hetero.online.search import propose_trial
from tvm_hetero.online.slowdown import EQUAL, Factors, disturbed_seconds, estimate_factors

# Trials of one search.
_TRIALS = 2
# Times this close to those in quiet are quiet.
_QUIET = 0.08
# What is tried promises at least this much (and twice the setting's margin).
_PROMISE = 0.02
# Two disturbances are one if they slow each stage by the same factor, but for this.
_SAME = 0.1
_REMEMBERED = 8
# Windows until an idle place is probed for the first time, and at most.
_PROBE, _LONGEST_PROBE = 4, 256


@dataclass(frozen=True)
class _Memo:
    """`fitting` was best when the stages of `here` were slower than in quiet by `ratios`."""

    here: Configuration
    ratios: tuple[float, ...]
    fitting: Configuration


@dataclass(frozen=True)
class _Round:
    """A search that goes on: what raised it, what was seen of it, the best so far."""

    alarm: Alarm | None
    origin: Observation
    best: Observation
    seen: tuple[Observation, ...]
    probing: bool = False

    @property
    def tried(self) -> set[Configuration]:
        """What was seen under this disturbance."""
        return {observation.configuration for observation in self.seen}


@dataclass(frozen=True)
class _Resolve:
    """`scale`: of each place, seen over given seconds in quiet; () before the first baseline.

    `probe`: windows until the next probe, and how many there were before it.
    """

    setting: Setting
    detector: Detector
    here: Configuration
    home: Configuration
    scale: tuple[float, ...] = ()
    factors: tuple[Factors, ...] = ()
    memory: tuple[_Memo, ...] = ()
    round: _Round | None = None
    probe: tuple[int, int] = (_PROBE, _PROBE)

    @property
    def quiet(self) -> list[list[float]]:
        """seconds[block][place] in quiet, calibrated."""
        rows = self.setting.guessed
        return [[time * s for time, s in zip(row, self.scale, strict=True)] for row in rows]

    @property
    def expected(self) -> list[list[float]]:
        """seconds[block][place] as the places are now."""
        return disturbed_seconds(self.setting, self.quiet, self.factors)


def begin(setting: Setting) -> Turn:
    """Watch the static configuration for a baseline."""
    state = _Resolve(setting, make_detector(setting), setting.static, setting.static)
    return state, keep(setting, setting.static, "the static configuration, for a baseline")


def step(state: _Resolve, observation: Observation) -> Turn:
    """Watch, or go on with a search."""
    if state.round is not None:
        return _judge(state, state.round, observation)
    detector, alarm = detect(state.detector, observation)
    state = replace(state, detector=detector)
    if not detector.ready:
        return state, keep(state.setting, state.here, "a baseline of this configuration")
    if not state.scale:
        return _begin_round(_calibrate(state, observation), observation, None)
    if alarm is not None:
        return _answer(state, observation, alarm)
    return _probe(state, observation)


def _calibrate(state: _Resolve, observation: Observation) -> _Resolve:
    """Scale the given seconds so that they tell the first baseline."""
    given, scale = state.setting.guessed, dict[int, float]()
    for (a, b), place, time in zip(
        state.here.ranges, state.here.places, state.detector.baseline, strict=True
    ):
        scale[place] = time / sum(given[block][place] for block in range(a, b))
    usual = statistics.median(scale.values())
    count = len(state.setting.places)
    return replace(
        state,
        scale=tuple(scale.get(p, usual) for p in range(count)),
        factors=(EQUAL,) * count,
    )


# ------------------------------------------------------------------------------------ the alarm


def _answer(state: _Resolve, observation: Observation, alarm: Alarm) -> Turn:
    """Go home if it is quiet again, else search; of idle places the best is hoped for."""
    fresh = estimate_factors(state.setting, state.quiet, [observation])
    count = len(state.setting.places)
    factors = tuple(fresh.get(p, EQUAL) for p in range(count))
    state = replace(state, factors=factors)
    if alarm.direction == "fast" and state.here != state.home and _is_quiet(factors):
        return _settle(state, state.home, True, alarm, f"{alarm.text()}: quiet, so back home")
    return _begin_round(state, observation, alarm)


def _is_quiet(factors: Sequence[Factors]) -> bool:
    return all(f < 1 + _QUIET for pair in factors for f in pair)


def _begin_round(state: _Resolve, observation: Observation, alarm: Alarm | None) -> Turn:
    """The first trial of a search, if anything promises enough."""
    found = _Round(alarm, observation, observation, (observation,))
    return _next_trial(state, found)


def _next_trial(state: _Resolve, found: _Round) -> Turn:
    """Try the first candidate that promises enough, or settle on the best one seen."""
    promise = 1 + max(_PROMISE, 2 * state.setting.margin)
    reason = "" if found.alarm is None else f"{found.alarm.text()}: "
    if len(found.seen) <= _TRIALS:
        for candidate, expected, why in _candidates(state, found):
            promised = 1 / expected / found.best.rate
            if candidate not in found.tried and promised > promise:
                why = f"{reason}{why} promises {promised - 1:.0%} more"
                return replace(state, round=found), propose_trial(state.setting, candidate, why)
    return _conclude(state, found, reason)


def _candidates(state: _Resolve, found: _Round) -> Iterator[tuple[Configuration, float, str]]:
    """What may be tried next, with its expected bottleneck (s)."""
    expected, places = state.expected, state.setting.places
    known = _recall(state, found.origin) if len(found.seen) == 1 else None
    if known is not None:
        yield known, bottleneck(expected, known), "what fitted such a disturbance before"
    best = find_optimum(expected, places, state.here)
    yield best.configuration, best.bottleneck, "the optimum for these times"
    if len(found.seen) > 1 and found.best is found.origin:
        roots = tuple((math.sqrt(c), math.sqrt(m)) for c, m in state.factors)
        milder = disturbed_seconds(state.setting, state.quiet, roots)
        half = find_optimum(milder, places, state.here).configuration
        yield half, bottleneck(expected, half), "half-way to the optimum"


def _judge(state: _Resolve, found: _Round, observation: Observation) -> Turn:
    """What a trial brought, and what comes next."""
    better = observation.rate > found.best.rate * (1 + state.setting.margin)
    seen = (*found.seen, observation)
    found = replace(found, best=observation if better else found.best, seen=seen)
    fresh = estimate_factors(state.setting, state.quiet, seen)
    factors = tuple(fresh.get(p, old) for p, old in enumerate(state.factors))
    return _next_trial(replace(state, factors=factors), found)


def _conclude(state: _Resolve, found: _Round, reason: str) -> Turn:
    """Settle on the best one seen, and remember what it fitted."""
    best, origin = found.best.configuration, found.origin.configuration
    gained = best != origin
    if gained:
        why = f"{found.best.rate / found.origin.rate - 1:.0%} more than before"
        if found.alarm is not None:
            state = replace(state, memory=_remember(state, found))
        elif not found.probing:
            state = replace(state, home=best)  # the static configuration was not the best in quiet
    else:
        why = "nothing better, so it stays"
    wait = _PROBE if gained else min(_LONGEST_PROBE, 2 * state.probe[1])
    if found.probing:
        state = replace(state, probe=(wait, wait))
    return _settle(state, best, gained, found.alarm, f"{reason}{why}")


def _settle(
    state: _Resolve, configuration: Configuration, gained: bool, alarm: Alarm | None, why: str
) -> Turn:
    detector = after_search(state.detector, alarm, gained=gained)
    state = replace(state, detector=detector, here=configuration, round=None)
    phase = Proposal(configuration, state.setting.window, "settled", why)
    return state, phase


# ------------------------------------------------------------------------------------ the memory


def _ratios(state: _Resolve, observation: Observation) -> tuple[float, ...]:
    """How much slower each stage is than in quiet."""
    quiet, configuration = state.quiet, observation.configuration
    return tuple(
        time / sum(quiet[block][place] for block in range(a, b))
        for (a, b), place, time in zip(
            configuration.ranges, configuration.places, observation.times, strict=True
        )
    )


def _recall(state: _Resolve, origin: Observation) -> Configuration | None:
    """What fitted when the same configuration was disturbed in the same way; the newest first."""
    ratios = _ratios(state, origin)
    for memo in reversed(state.memory):
        if memo.here == origin.configuration and all(
            abs(a / b - 1) <= _SAME for a, b in zip(ratios, memo.ratios, strict=True)
        ):
            return memo.fitting
    return None


def _remember(state: _Resolve, found: _Round) -> tuple[_Memo, ...]:
    here, fitting = found.origin.configuration, found.best.configuration
    memo = _Memo(here, _ratios(state, found.origin), fitting)
    others = [old for old in state.memory if old.fitting != fitting or old.here != here]
    return (*others[1 - _REMEMBERED :], memo)


# ------------------------------------------------------------------------------------ the probe


def _probe(state: _Resolve, observation: Observation) -> Turn:
    """Watch on; from time to time see whether places that became idle are well again."""
    idle = set(state.home.places) - set(state.here.places)
    if not idle:
        return state, keep(state.setting, state.here, "nothing has changed")
    left, before = state.probe
    if left > 1:
        state = replace(state, probe=(left - 1, before))
        return state, keep(state.setting, state.here, "nothing has changed that can be seen")
    factors = tuple(EQUAL if p in idle else old for p, old in enumerate(state.factors))
    found = _Round(None, observation, observation, (observation,), probing=True)
    turn = _next_trial(replace(state, factors=factors, probe=(before, before)), found)
    return turn[0], replace(turn[1], why=f"whether idle places are well again: {turn[1].why}")


POLICY = Policy("resolve", begin, step)
