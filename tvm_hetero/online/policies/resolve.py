"""Resolve: estimate how slow each place is, solve for the best configuration exactly, try it.

Our own answer to what the papers' policies look for by trial. What is unknown while a pipeline runs
is only how much slower each place has become; given that, the best contiguous stages are found in
milliseconds (`tvm_hetero.online.optimum`).

    baseline   seconds in quiet, scaled so that static stages take what was seen -> `_calibrate`
    alarm      stage times against them: factors of each place            -> `estimate_factors`
    home       factors of about 1 again: straight back to the quiet configuration, no trial
    rest       an alarm that comes sooner than the last answer has paid: home, and a rest that gets
               longer each time; the next alarm has to last longer, too              -> `_rest`
    known      a disturbance that was seen before: what fitted it is tried first      -> `_recall`
    solve      the exact optimum for seconds times factors; tried if it promises enough
    refine     what the trial saw goes into the factors; solve again, try that; or the optimum if
               memory alone is contended, as far as what was seen admits that; or half-way: that
               for factors half as strong (their square roots)            -> `_candidates`
    settle     on the best one seen, mostly after one or two trials; its first baseline is looked
               at once more: what disturbed may have ended during the search         -> `_review`

A place that is idle because it was slow says nothing when that ends. So of configurations that are
nearly equal the one with the most stages is taken, and where a place is idle all the same, it gets
a little to do now and then, ever more seldom while that is in vain                   -> `_probe`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tvm_hetero.online.adaptation import keep
from tvm_hetero.online.configuration import Configuration, neighbours
from tvm_hetero.online.detection import Alarm, Detector, after_search, detect, make_detector
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.optimum import bottleneck, find_near, stage_seconds
from tvm_hetero.online.policy import Policy, Proposal, Setting, Turn
from tvm_hetero.online.search import propose_trial
from tvm_hetero.online.slowdown import EQUAL, Factors, disturbed_seconds, estimate_factors

# Trials of one search at most; each one has to be promised something by what the last one showed.
_TRIALS = 4
# What is tried promises at least this much, and the setting's margin.
_PROMISE = 0.01
# And this much where no alarm asks for it.
_PROMISE_UNASKED = 0.03
# Two disturbances are one if they slow each stage by the same factor, but for this.
_SAME = 0.1
_REMEMBERED = 8
# What may be lost for a place that stays in use, and so shows when it is well again.
_SLACK = 0.005
# Windows until an idle place is probed for the first time, and at most.
_PROBE, _LONGEST_PROBE = 4, 64
# An answer pays if nothing changes for this many times the requests that it takes.
_PAYS = 2


# A configuration, by which factor it is promised to be better than the best one seen, and why.
_Candidate = tuple[Configuration, float, str]


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

    `probe`: windows until the next probe, and how many there were before it. `review`: a search has
    just brought something, and its first baseline is still to be looked at. `calm`: requests that
    were watched since the last answer; `wait`: windows of the last rest.
    `hold`: windows that an alarm has to last before it is answered; `held`: those so far;
    `paid`: the last answer brought something, and nobody knows yet that it was in vain.
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
    review: bool = False
    calm: float = math.inf
    wait: int = 0
    hold: int = 0
    held: int = 0
    paid: bool = False

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
    resting = state.detector.resting > 0
    detector, alarm = detect(state.detector, observation)
    calm = state.calm + (0 if resting else observation.requests)
    state = replace(state, detector=detector, calm=calm)
    if not detector.ready:
        return state, keep(state.setting, state.here, "a baseline of this configuration")
    if not state.scale:
        return _begin_round(_calibrate(state), observation, None)
    if alarm is None and state.review:
        return _review(state, observation)
    if alarm is None:
        return _probe(replace(state, held=0), observation)
    if _is_hasty(state):
        return _rest(state, alarm)
    if state.paid:
        state = replace(state, hold=state.hold // 2, wait=state.wait // 2, paid=False)
    if state.held < state.hold:
        state = replace(state, held=state.held + 1)
        return state, keep(state.setting, state.here, f"{alarm.text()}: whether it lasts")
    return _answer(replace(state, held=0), observation, alarm)


def _calibrate(state: _Resolve) -> _Resolve:
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


def _cost_of_answer(setting: Setting, stages: int) -> int:
    """Requests that an answer takes: watched until an alarm, in flight, and a trial."""
    return setting.patience * setting.window + stages + 1 + setting.trial


def _is_hasty(state: _Resolve) -> bool:
    """Whether things change sooner than an answer to them would pay: see `_PAYS`."""
    setting = state.setting
    calm = state.calm - setting.patience * setting.window
    return setting.rest > 0 and calm < _PAYS * _cost_of_answer(setting, len(state.here))


def _in_vain(state: _Resolve) -> _Resolve:
    """After an answer that was in vain the next alarm has to last longer."""
    setting = state.setting
    first = _cost_of_answer(setting, len(state.here)) // setting.window
    hold = min(setting.rest, max(1, first, 2 * state.hold))
    return replace(state, hold=hold, paid=False)


def _rest(state: _Resolve, alarm: Alarm) -> Turn:
    """Home for a while; what is the matter then is seen by the first baseline after it."""
    setting = state.setting
    first = 2 * _PAYS * _cost_of_answer(setting, len(state.here)) // setting.window
    wait = min(setting.rest, max(1, first, 2 * state.wait))
    detector = replace(after_search(state.detector, None, gained=True), resting=wait)
    state = replace(_in_vain(state), detector=detector, wait=wait)
    state = replace(state, here=state.home, review=True, calm=0)
    why = f"{alarm.text()}, too soon after the last time: home for {wait} windows"
    return state, Proposal(state.home, state.setting.window, "settled", why)


def _answer(state: _Resolve, observation: Observation, alarm: Alarm) -> Turn:
    """Go home if it is quiet again, else search; of idle places the best is hoped for."""
    state = _learn_quiet(state, observation)
    fresh = estimate_factors(state.setting, state.quiet, [observation])
    count = len(state.setting.places)
    factors = tuple(fresh.get(p, EQUAL) for p in range(count))
    state = replace(state, factors=factors)
    if alarm.direction == "fast" and state.here != state.home and _is_quiet(state, factors):
        state = replace(state, review=True)
        return _settle(state, state.home, True, alarm, f"{alarm.text()}: quiet, so back home")
    return _begin_round(state, observation, alarm)


def _review(state: _Resolve, observation: Observation) -> Turn:
    """The first baseline of what a search settled on: has it ended meanwhile, is there better?"""
    state = _learn_quiet(replace(state, review=False), observation)
    state = replace(state, factors=_known_factors(state, [observation]))
    used = [state.factors[p] for p in state.here.places]
    hidden = set(state.home.places) - set(state.here.places)
    if state.here != state.home and _is_quiet(state, used) and not hidden:
        state = _in_vain(state)
        return _settle(state, state.home, True, None, "it is quiet again already, so back home")
    return _begin_round(state, observation, None)


def _learn_quiet(state: _Resolve, observation: Observation) -> _Resolve:
    """Places that are faster than in quiet: what was taken for quiet was none."""
    fresh = estimate_factors(state.setting, state.quiet, [observation])
    faster = {p: max(f) for p, f in fresh.items() if max(f) < 1 / (1 + state.setting.deviation)}
    if not faster:
        return state
    scale = tuple(s * faster.get(p, 1.0) for p, s in enumerate(state.scale))
    state = replace(state, scale=scale)
    home = find_near(state.quiet, state.setting.places, state.home, _SLACK)
    return replace(state, home=home)


def _known_factors(state: _Resolve, seen: Sequence[Observation]) -> tuple[Factors, ...]:
    """Factors of places that were seen; the others keep theirs."""
    fresh = estimate_factors(state.setting, state.quiet, seen)
    return tuple(fresh.get(p, old) for p, old in enumerate(state.factors))


def _is_quiet(state: _Resolve, factors: Sequence[Factors]) -> bool:
    """Whether these factors are those of places that nothing disturbs."""
    return all(f < 1 + state.setting.deviation for pair in factors for f in pair)


def _begin_round(state: _Resolve, observation: Observation, alarm: Alarm | None) -> Turn:
    """The first trial of a search, if anything promises enough."""
    found = _Round(alarm, observation, observation, (observation,))
    return _next_trial(state, found)


def _next_trial(state: _Resolve, found: _Round) -> Turn:
    """Try the first candidate that promises enough, or settle on the best one seen."""
    least = _PROMISE if found.alarm is not None else _PROMISE_UNASKED
    promise = 1 + max(least, state.setting.margin)
    reason = "" if found.alarm is None else f"{found.alarm.text()}: "
    if len(found.seen) <= (_TRIALS if state.wait == 0 else 1):
        for candidate, promised, why in _candidates(state, found):
            if candidate not in found.tried and promised > promise:
                why = f"{reason}{why} promises {promised - 1:.0%} more"
                return replace(state, round=found), propose_trial(state.setting, candidate, why)
    return _conclude(state, found, reason)


def _candidates(state: _Resolve, found: _Round) -> Iterator[_Candidate]:
    """What may be tried next."""
    expected, places = state.expected, state.setting.places
    now = bottleneck(expected, found.best.configuration)
    known = _recall(state, found.origin) if len(found.seen) == 1 else None
    if known is not None:
        yield known, now / bottleneck(expected, known), "what fitted such a disturbance before"
    best = find_near(expected, places, state.here, _SLACK)
    yield best, now / bottleneck(expected, best), "the optimum for these times"
    if len(found.seen) == 1:
        return
    if state.setting.classes:
        yield _other_explanation(state, found)
    if found.best is found.origin:
        roots = tuple((math.sqrt(c), math.sqrt(m)) for c, m in state.factors)
        milder = disturbed_seconds(state.setting, state.quiet, roots)
        half = find_near(milder, places, state.here, _SLACK)
        yield half, now / bottleneck(expected, half), "half-way to the optimum"


def _other_explanation(state: _Resolve, found: _Round) -> _Candidate:
    """The optimum if it is the memory that somebody takes, which all that was seen may admit."""
    fresh = estimate_factors(state.setting, state.quiet, found.seen, blame_memory=True)
    factors = [fresh.get(p, old) for p, old in enumerate(state.factors)]
    seconds = disturbed_seconds(state.setting, state.quiet, factors)
    why = "the optimum if it is memory that is contended"
    best = find_near(seconds, state.setting.places, state.here, _SLACK)
    for seen in found.seen:
        for time, told in zip(seen.times, stage_seconds(seconds, seen.configuration), strict=True):
            if abs(told / time - 1) > _SAME:
                return best, 0.0, why
    now = bottleneck(seconds, found.best.configuration)
    return best, now / bottleneck(seconds, best), why


def _judge(state: _Resolve, found: _Round, observation: Observation) -> Turn:
    """What a trial brought, and what comes next."""
    better = observation.rate > found.best.rate * (1 + state.setting.margin)
    seen = (*found.seen, observation)
    found = replace(found, best=observation if better else found.best, seen=seen)
    return _next_trial(replace(state, factors=_known_factors(state, seen)), found)


def _conclude(state: _Resolve, found: _Round, reason: str) -> Turn:
    """Settle on the best one seen, and remember what it fitted."""
    best, origin = found.best.configuration, found.origin.configuration
    gained = best != origin
    if gained:
        why = f"{found.best.rate / found.origin.rate - 1:.0%} more than before"
        if found.alarm is not None:
            state = replace(state, memory=_remember(state, found), paid=True)
        elif not found.probing and _is_quiet(state, state.factors):
            state = replace(state, home=best)  # the static configuration was not the best in quiet
        state = replace(state, review=found.alarm is not None)
    else:
        why = "nothing better, so it stays"
    wait = _PROBE if gained else min(_LONGEST_PROBE, 2 * state.probe[1])
    if found.alarm is not None and not gained:
        state = _in_vain(state)
    if found.probing:
        state = replace(state, probe=(wait, wait))
    return _settle(state, best, gained, found.alarm, f"{reason}{why}")


def _settle(
    state: _Resolve, configuration: Configuration, gained: bool, alarm: Alarm | None, why: str
) -> Turn:
    detector = after_search(state.detector, alarm, gained=gained)
    calm = 0 if gained else state.calm
    state = replace(state, detector=detector, here=configuration, round=None, calm=calm)
    return state, Proposal(configuration, state.setting.window, "settled", why)


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
    state = replace(state, probe=(before, before))
    canaries = [c for c in neighbours(state.here, state.setting.places) if idle & set(c.places)]
    if not canaries:
        return state, keep(state.setting, state.here, "nothing has changed that can be seen")
    found = min(canaries, key=lambda c: bottleneck(state.expected, c))
    seen = _Round(None, observation, observation, (observation,), probing=True)
    why = "whether an idle place is well again: it gets what costs least if it is not"
    return replace(state, round=seen), propose_trial(state.setting, found, why)


POLICY = Policy("resolve", begin, step)
