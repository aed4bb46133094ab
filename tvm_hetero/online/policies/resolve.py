"""Resolve: estimate how slow each place is, solve for the best configuration exactly, try it.

Our own answer to what the papers' policies look for by trial. What is unknown while a pipeline runs
is only how much slower each place has become; given that, the best contiguous stages are found in
milliseconds (`tvm_hetero.online.optimum`). The artifact's own plan, if it is known, is where this
begins and what is at home, and it is among the candidates for as long as it is as good as they are
by the same seconds (`find_best`).

    baseline   seconds in quiet, scaled so that the stages take what was seen    -> `calibrate`
    alarm      stage times against them: factors of each place            -> `estimate_factors`
    home       factors of about 1 again: straight back to the quiet configuration, no trial
    hold       what is not expected to last for long enough, by what the last ones did, is not
               answered: home, to see whether it lasts          -> `best_answer`, `_hold`
    known      a disturbance that was seen before: what fitted it is tried first      -> `recall`
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
from collections.abc import Iterator
from dataclasses import replace

from tvm_hetero.online.adaptation import keep
from tvm_hetero.online.configuration import Configuration, neighbours
from tvm_hetero.online.detection import Alarm, Detector, after_search, detect, make_detector
from tvm_hetero.online.observation import Observation, comparable_rates
from tvm_hetero.online.optimum import bottleneck, stage_seconds
from tvm_hetero.online.own_plan import Arrangement
from tvm_hetero.online.policies.answers import best_answer
from tvm_hetero.online.policies.patience import DisturbanceHistory, cost_of_answer
from tvm_hetero.online.policies.resolve_state import (
    PROBE,
    SAME,
    ResolveRound,
    ResolveState,
    calibrate,
    find_best,
    has_changed,
    is_baseline_quiet,
    is_better_home,
    is_quiet,
    known_factors,
    learn_quiet,
    recall,
    remember,
)
from tvm_hetero.online.policy import Policy, Proposal, Setting, Turn
from tvm_hetero.online.search import propose_trial
from tvm_hetero.online.slowdown import EQUAL, disturbed_seconds, estimate_factors

# Trials of one search at most; each one has to be promised something by what the last one showed.
_TRIALS = 4
# What is tried promises at least this much, and the setting's margin.
_PROMISE = 0.01
# And this much where no alarm asks for it.
_PROMISE_UNASKED = 0.03
# Windows until an idle place is probed again, at most.
_LONGEST_PROBE = 64
# A configuration, by which factor it is promised to be better than the best one seen, and why.
_Candidate = tuple[Arrangement, float, str]


def begin(setting: Setting) -> Turn:
    """Watch the plan that was made in quiet for a baseline."""
    state = ResolveState(setting, make_detector(setting), setting.first, setting.first)
    return state, keep(setting, setting.first, "the plan that was made in quiet, for a baseline")


def step(state: ResolveState, observation: Observation) -> Turn:
    """Watch, or go on with a search."""
    if state.round is not None:
        return _judge(state, state.round, observation)
    detector, alarm = detect(state.detector, observation)
    history = _listen(state, detector, observation, alarm)
    state = replace(state, detector=detector, history=history)
    if not detector.ready:
        return state, keep(state.setting, state.here, "a baseline of this configuration")
    if not state.scale:
        return _begin_round(calibrate(state), observation, None)
    if alarm is None and state.review:
        return _review(state, observation)
    if alarm is None:
        if state.here == state.home and detector.resting == 0 and is_baseline_quiet(state):
            state = replace(state, known=detector)
        return _probe(state, observation)
    return _answer(state, observation, alarm)


# ------------------------------------------------------------------------------------ the alarm


def _listen(
    state: ResolveState, detector: Detector, observation: Observation, alarm: Alarm | None
) -> DisturbanceHistory:
    """How long what disturbs has lasted by now; `detector`: with this window."""
    history = state.history
    if alarm is not None:
        return history.hear(alarm, state.setting, observation.requests)
    if history.alarm is not None and state.detector.resting == 0 and detector.calm:
        return history.calm_down(state.setting)
    return history.go_on(observation.requests)


def _hold(state: ResolveState, alarm: Alarm) -> Turn:
    """See at home whether it lasts long enough to be answered."""
    if state.here == state.home:
        return state, keep(state.setting, state.here, f"{alarm.text()}: whether it lasts")
    return _go_home(state, f"{alarm.text()}: home, to see whether it lasts")


def _go_home(state: ResolveState, why: str) -> Turn:
    """Home without a trial; what is the matter then is heard there."""
    state = replace(state, history=state.history.forget(), review=False)
    return _settle(state, state.home, True, None, why)


def _answer(state: ResolveState, observation: Observation, alarm: Alarm) -> Turn:
    """Home if it is quiet again; else a search, if it is expected to last for long enough.

    Of idle places the best is hoped for.
    """
    state = learn_quiet(state, observation)
    fresh = estimate_factors(state.setting, state.quiet, [observation])
    count = len(state.setting.places)
    factors = tuple(fresh.get(p, EQUAL) for p in range(count))
    state = replace(state, factors=factors)
    if alarm.direction == "fast" and state.here != state.home and is_quiet(state, factors):
        return _go_home(state, f"{alarm.text()}: quiet, so back home")
    answer = best_answer(state)
    if state.history.is_new:  # not before: what is now is none of those that come when it has ended
        state = replace(state, history=state.history.see(factors))
    if answer is None:
        return _hold(state, alarm)
    state = replace(state, history=state.history.answer(), answer=answer)
    return _begin_round(state, observation, alarm)


def _review(state: ResolveState, observation: Observation) -> Turn:
    """The first baseline of what a search settled on: has it ended meanwhile, is there better?"""
    state = learn_quiet(replace(state, review=False), observation)
    state = replace(state, factors=known_factors(state, [observation]))
    used = [state.factors[p] for p in state.here.places]
    hidden = set(state.home.places) - set(state.here.places)
    before = state.found
    changed = before is not None and has_changed(state, before, observation)
    if changed or (state.here != state.home and is_quiet(state, used) and not hidden):
        state = replace(state, history=state.history.end())
        return _go_home(state, "it has changed already, so back home")
    return _begin_round(state, observation, None)


def _begin_round(state: ResolveState, observation: Observation, alarm: Alarm | None) -> Turn:
    """The first trial of a search, if anything promises enough."""
    found = ResolveRound(alarm, observation, observation, (observation,))
    return _next_trial(state, found)


def _next_trial(state: ResolveState, found: ResolveRound) -> Turn:
    """Try the first candidate that promises enough, or settle on the best one seen."""
    least = _PROMISE if found.alarm is not None else _PROMISE_UNASKED
    promise = 1 + max(least, state.setting.margin)
    reason = "" if found.alarm is None else f"{found.alarm.text()}: "
    if len(found.seen) <= _most_trials(state):
        for candidate, promised, why in _candidates(state, found):
            if candidate not in found.tried and promised > promise:
                why = f"{reason}{why} promises {promised - 1:.0%} more"
                return replace(state, round=found), propose_trial(state.setting, candidate, why)
    return _conclude(state, found, reason)


def _most_trials(state: ResolveState) -> int:
    """One where what disturbs will soon have ended."""
    cost = cost_of_answer(state.setting, len(state.here))
    long = state.setting.rest == 0 or state.history.remaining() > _TRIALS * cost
    return _TRIALS if long else 1


def _candidates(state: ResolveState, found: ResolveRound) -> Iterator[_Candidate]:
    """What may be tried next."""
    expected = state.expected
    now = bottleneck(expected, found.best.configuration)
    known = recall(state, found.origin) if len(found.seen) == 1 else None
    if known is not None:
        yield known, now / bottleneck(expected, known), "what fitted such a disturbance before"
    if len(found.seen) == 1 and found.alarm is not None and state.answer is not None:
        best, why = state.answer, "what is best for as long as it may last"
    else:
        best, why = find_best(state.setting, expected, state.here), "the optimum for these times"
    yield best, now / bottleneck(expected, best), why
    if len(found.seen) == 1:
        return
    if state.setting.classes:
        yield _other_explanation(state, found)
    if found.best is found.origin:
        roots = tuple((math.sqrt(c), math.sqrt(m)) for c, m in state.factors)
        milder = disturbed_seconds(state.setting, state.quiet, roots)
        half = find_best(state.setting, milder, state.here)
        yield half, now / bottleneck(expected, half), "half-way to the optimum"


def _other_explanation(state: ResolveState, found: ResolveRound) -> _Candidate:
    """The optimum if it is the memory that somebody takes, which all that was seen may admit."""
    fresh = estimate_factors(state.setting, state.quiet, found.seen, blame_memory=True)
    factors = [fresh.get(p, old) for p, old in enumerate(state.factors)]
    seconds = disturbed_seconds(state.setting, state.quiet, factors)
    why = "the optimum if it is memory that is contended"
    best = find_best(state.setting, seconds, state.here)
    for seen in found.seen:
        for time, told in zip(seen.times, stage_seconds(seconds, seen.configuration), strict=True):
            if abs(told / time - 1) > SAME:
                return best, 0.0, why
    now = bottleneck(seconds, found.best.configuration)
    return best, now / bottleneck(seconds, best), why


def _judge(state: ResolveState, found: ResolveRound, observation: Observation) -> Turn:
    """What a trial brought, and what comes next."""
    rate, best = comparable_rates(observation, found.best)
    better = rate > best * (1 + state.setting.margin)
    seen = (*found.seen, observation)
    found = replace(found, best=observation if better else found.best, seen=seen)
    state = replace(state, history=state.history.go_on(observation.requests))
    if state.setting.rest and has_changed(state, found.origin, observation):
        state = replace(state, history=state.history.end())
        return _go_home(state, "it has changed during the search, so back home")
    return _next_trial(replace(state, factors=known_factors(state, seen)), found)


def _conclude(state: ResolveState, found: ResolveRound, reason: str) -> Turn:
    """Settle on the best one seen, and remember what it fitted."""
    best, origin = found.best.configuration, found.origin.configuration
    gained = best != origin
    if gained:
        now, before = comparable_rates(found.best, found.origin)
        why = f"{now / before - 1:.0%} more than before"
        if found.alarm is not None:
            state = replace(state, memory=remember(state, found))
        elif not found.probing and is_better_home(state, best):
            state = replace(state, home=best, known=None)  # the static one was not best in quiet
        state = replace(state, review=found.alarm is not None, found=found.best)
    else:
        why = "nothing better, so it stays"
    wait = PROBE if gained else min(_LONGEST_PROBE, 2 * state.probe[1])
    if found.probing:
        state = replace(state, probe=(wait, wait))
    return _settle(state, best, gained, found.alarm, f"{reason}{why}")


def _settle(
    state: ResolveState, configuration: Arrangement, gained: bool, alarm: Alarm | None, why: str
) -> Turn:
    detector = state.detector
    if gained or alarm is not None:  # else its baseline is true still, and tells what has ended
        detector = after_search(state.detector, alarm, gained=gained)
    if gained and configuration == state.home and state.known is not None:
        known = state.known  # what it takes in quiet is known, whatever there is when it comes back
        detector = replace(detector, baseline=known.baseline, spread=known.spread)
    state = replace(state, detector=detector, here=configuration, round=None)
    return state, Proposal(configuration, state.setting.window, "settled", why)


# ------------------------------------------------------------------------------------ the probe


def _probe(state: ResolveState, observation: Observation) -> Turn:
    """Watch on; from time to time see whether places that became idle are well again."""
    idle = set(state.home.places) - set(state.here.places)
    if not idle:
        return state, keep(state.setting, state.here, "nothing has changed")
    left, before = state.probe
    if left > 1:
        state = replace(state, probe=(left - 1, before))
        return state, keep(state.setting, state.here, "nothing has changed that can be seen")
    state = replace(state, probe=(before, before))
    canaries = [c for c in _steps(state) if idle & set(c.places)]
    if not canaries:
        return state, keep(state.setting, state.here, "nothing has changed that can be seen")
    found = min(canaries, key=lambda c: bottleneck(state.expected, c))
    seen = ResolveRound(None, observation, observation, (observation,), probing=True)
    why = "whether an idle place is well again: it gets what costs least if it is not"
    return replace(state, round=seen), propose_trial(state.setting, found, why)


def _steps(state: ResolveState) -> Iterator[Configuration]:
    """What is one step away; nothing is from the artifact's own plan."""
    if isinstance(state.here, Configuration):
        yield from neighbours(state.here, state.setting.places)


POLICY = Policy("resolve", begin, step)
