"""What `resolve` knows: seconds in quiet, how slow each place is, what fitted before, its patience.

The decisions are in `tvm_hetero.online.policies.resolve`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm_hetero.online.detection import Alarm, Detector
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.optimum import Seconds, bottleneck, find_near, stage_seconds
from tvm_hetero.online.own_plan import Arrangement, OwnPlan
from tvm_hetero.online.policies.patience import START, DisturbanceHistory
from tvm_hetero.online.policy import Setting
from tvm_hetero.online.slowdown import EQUAL, Factors, disturbed_seconds, estimate_factors

# Two disturbances are one if they slow each stage by the same factor, but for this.
SAME = 0.1
_REMEMBERED = 8
# Of one disturbance different blocks suffer differently, but none by so much more than others.
_CHANGED = 1.2
# What may be lost for a place that stays in use, and so shows when it is well again.
SLACK = 0.005
# Windows until an idle place is probed for the first time.
PROBE = 4


@dataclass(frozen=True)
class DisturbanceMemo:
    """`fitting` was best when the stages of `here` were slower than in quiet by `ratios`."""

    here: Arrangement
    ratios: tuple[float, ...]
    fitting: Arrangement


@dataclass(frozen=True)
class ResolveRound:
    """A search that goes on: what raised it, what was seen of it, the best so far."""

    alarm: Alarm | None
    origin: Observation
    best: Observation
    seen: tuple[Observation, ...]
    probing: bool = False

    @property
    def tried(self) -> set[Arrangement]:
        """What was seen under this disturbance."""
        return {observation.configuration for observation in self.seen}


@dataclass(frozen=True)
class ResolveState:
    """`scale`: of each place, seen over given seconds in quiet; () before the first baseline.

    `probe`: windows until the next probe, and how many there were before it. `review`: a search has
    just brought something, and its first baseline is still to be looked at. `history`: how long
    disturbances lasted, and the one that is. `found`: the best that the last search saw which
    changed something. `answer`: what was worth most for the last alarm that was answered. `known`:
    what watched home last in quiet, with its baseline; None if home is new.
    """

    setting: Setting
    detector: Detector
    here: Arrangement
    home: Arrangement
    scale: tuple[float, ...] = ()
    factors: tuple[Factors, ...] = ()
    memory: tuple[DisturbanceMemo, ...] = ()
    round: ResolveRound | None = None
    probe: tuple[int, int] = (PROBE, PROBE)
    review: bool = False
    history: DisturbanceHistory = START
    found: Observation | None = None
    answer: Arrangement | None = None
    known: Detector | None = None

    @property
    def quiet(self) -> list[list[float]]:
        """seconds[block][place] in quiet, calibrated."""
        rows = self.setting.guessed
        return [[time * s for time, s in zip(row, self.scale, strict=True)] for row in rows]

    @property
    def expected(self) -> list[list[float]]:
        """seconds[block][place] as the places are now."""
        return disturbed_seconds(self.setting, self.quiet, self.factors)


def calibrate(state: ResolveState) -> ResolveState:
    """Scale the given seconds so that they tell the first baseline."""
    given, scale = state.setting.guessed, dict[int, float]()
    told = stage_seconds(given, state.here)
    for place, expected, time in zip(state.here.places, told, state.detector.baseline, strict=True):
        scale[place] = time / expected
    usual = statistics.median(scale.values())
    count = len(state.setting.places)
    return replace(
        state,
        scale=tuple(scale.get(p, usual) for p in range(count)),
        factors=(EQUAL,) * count,
    )


def find_best(setting: Setting, seconds: Seconds, here: Arrangement) -> Arrangement:
    """The best contiguous stages for given seconds, or the artifact's own plan if it is as good.

    Stages near those that run are taken, and of nearly equal ones the most (`find_near`).
    """
    near = setting.static if isinstance(here, OwnPlan) else here
    found = find_near(seconds, setting.places, near, SLACK)
    own = setting.own
    if own is None or bottleneck(seconds, own) > bottleneck(seconds, found) * (1 + SLACK):
        return found
    return own


def learn_quiet(state: ResolveState, observation: Observation) -> ResolveState:
    """Places that are faster than in quiet: what was taken for quiet was none."""
    fresh = estimate_factors(state.setting, state.quiet, [observation])
    faster = {p: max(f) for p, f in fresh.items() if max(f) < 1 / (1 + state.setting.deviation)}
    if not faster:
        return state
    scale = tuple(s * faster.get(p, 1.0) for p, s in enumerate(state.scale))
    state = replace(state, scale=scale, known=None)
    return replace(state, home=find_best(state.setting, state.quiet, state.home))


def known_factors(state: ResolveState, seen: Sequence[Observation]) -> tuple[Factors, ...]:
    """Factors of places that were seen; the others keep theirs."""
    fresh = estimate_factors(state.setting, state.quiet, seen)
    return tuple(fresh.get(p, old) for p, old in enumerate(state.factors))


def is_quiet(state: ResolveState, factors: Sequence[Factors]) -> bool:
    """Whether these factors are those of places that nothing disturbs."""
    return all(f < 1 + state.setting.deviation for pair in factors for f in pair)


def is_baseline_quiet(state: ResolveState) -> bool:
    """Whether the baseline is one of quiet: after an answer in vain it is of what disturbs."""
    told = stage_seconds(state.quiet, state.here)
    most = 1 + state.setting.deviation
    return all(b < most * t for b, t in zip(state.detector.baseline, told, strict=True))


def is_better_home(state: ResolveState, found: Arrangement) -> bool:
    """Whether what was found is better in quiet than home: what a search began with may be over.

    A search that began under a disturbance may have found what fits that, and have seen it in
    quiet: it is better than what it began with, and no better than home.
    """
    now, then = bottleneck(state.quiet, found), bottleneck(state.quiet, state.home)
    return is_quiet(state, state.factors) and now < then


def has_changed(state: ResolveState, before: Observation, now: Observation) -> bool:
    """Whether some place was disturbed and is not, or the other way round."""
    then = dict(zip(before.configuration.places, ratios_to_quiet(state, before), strict=True))
    least = 1 + state.setting.deviation
    for place, ratio in zip(now.configuration.places, ratios_to_quiet(state, now), strict=True):
        low, high = sorted((ratio, then.get(place, ratio)))
        if low < least and high > least * _CHANGED:
            return True
    return False


def ratios_to_quiet(state: ResolveState, observation: Observation) -> tuple[float, ...]:
    """How much slower each stage is than in quiet."""
    told = stage_seconds(state.quiet, observation.configuration)
    return tuple(time / quiet for time, quiet in zip(observation.times, told, strict=True))


def recall(state: ResolveState, origin: Observation) -> Arrangement | None:
    """What fitted when the same configuration was disturbed in the same way; the newest first."""
    ratios = ratios_to_quiet(state, origin)
    for memo in reversed(state.memory):
        if memo.here == origin.configuration and all(
            abs(a / b - 1) <= SAME for a, b in zip(ratios, memo.ratios, strict=True)
        ):
            return memo.fitting
    return None


def remember(state: ResolveState, found: ResolveRound) -> tuple[DisturbanceMemo, ...]:
    here, fitting = found.origin.configuration, found.best.configuration
    memo = DisturbanceMemo(here, ratios_to_quiet(state, found.origin), fitting)
    others = [old for old in state.memory if old.fitting != fitting or old.here != here]
    return (*others[1 - _REMEMBERED :], memo)
