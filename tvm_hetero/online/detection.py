"""Whether stages take longer, or shorter again, than they did: never an answer to noise alone.

After every switch the first windows are the *baseline*: of each stage the median b and, of single
requests, the spread d. From then on, with t the median of a window,

    delta = max(8 %, 3 d / b, what a false alarm showed)
    slow    t > b (1 + delta)  of a stage that is, or becomes, the slowest one
    fast    t < b / (1 + delta)  of any stage: something that disturbed it has ended

Only where `patience` windows in a row say the same of a stage it is an alarm (hysteresis). Whoever
acts on an alarm says what came of it (`after_search`): where nothing was gained, the next one has
to wait for as many windows as the last wait, doubled (back-off), and needs a deviation beyond the
one that was in vain. So noise, of whatever shape, raises fewer and fewer alarms.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Literal

from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Setting

# The least deviation that counts, and how many spreads it has to be.
_LEAST, _SPREADS = 0.08, 3.0
# What false alarms may raise it to.
_MOST = 0.5

Direction = Literal["slow", "fast"]


@dataclass(frozen=True)
class Alarm:
    """A stage that takes longer (``slow``) or shorter (``fast``) than it did; `ratio` of times."""

    stage: int
    direction: Direction
    ratio: float

    def text(self) -> str:
        """For people."""
        word = "longer" if self.direction == "slow" else "shorter"
        return f"stage {self.stage} takes {word} than it did, by a factor of {self.ratio:.2f}"


@dataclass(frozen=True)
class Detector:
    """What is known of the configuration that runs (see the head of this file).

    Attributes
    ----------
    patience : windows for a baseline, and in a row for an alarm; most : the longest rest.
    first : windows of the baseline so far; baseline, spread : s, of each stage; () before.
    streak : windows in a row that deviated; last : how the last one did.
    resting : windows to wait still; wait : how long the last back-off was.
    floor : the deviation that false alarms showed to be none.
    """

    patience: int
    most: int
    first: tuple[Observation, ...] = ()
    baseline: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()
    streak: int = 0
    last: tuple[int, Direction] | None = None
    resting: int = 0
    wait: int = 0
    floor: float = 0.0

    @property
    def ready(self) -> bool:
        """Whether there is a baseline."""
        return bool(self.baseline)


def make_detector(setting: Setting) -> Detector:
    """A detector that knows nothing yet."""
    return Detector(setting.patience, setting.rest)


def detect(detector: Detector, observation: Observation) -> tuple[Detector, Alarm | None]:
    """Look at one more window of the configuration that runs."""
    if not detector.ready:
        return _extend_baseline(detector, observation), None
    if detector.resting > 0:
        return replace(detector, resting=detector.resting - 1, streak=0, last=None), None
    found = _deviation(detector, observation)
    if found is None:
        return replace(detector, streak=0, last=None), None
    key = (found.stage, found.direction)
    streak = detector.streak + 1 if key == detector.last else 1
    detector = replace(detector, streak=streak, last=key)
    return detector, found if streak >= detector.patience else None


def after_search(
    detector: Detector, alarm: Alarm | None, *, gained: bool, first: Observation | None = None
) -> Detector:
    """The detector of the configuration that a search settled on: a baseline is taken anew.

    Parameters
    ----------
    alarm : what the search answered; None where nothing had happened.
    first : the last window, if it was of that very configuration.
    """
    fresh = Detector(detector.patience, detector.most, floor=detector.floor)
    if first is not None:
        fresh = _extend_baseline(fresh, first)
    if gained or alarm is None:
        return fresh
    wait = min(detector.most, max(1, 2 * detector.wait))
    deviation = max(alarm.ratio, 1 / alarm.ratio) - 1
    floor = max(detector.floor, min(_MOST, 1.1 * deviation))
    return replace(fresh, wait=wait, resting=wait, floor=floor if detector.most else 0.0)


def _extend_baseline(detector: Detector, observation: Observation) -> Detector:
    windows = (*detector.first, observation)
    if len(windows) < detector.patience:
        return replace(detector, first=windows)
    rows = list(zip(*(window.stages for window in windows), strict=True))
    times = [statistics.median(stage.seconds for stage in row) for row in rows]
    spread = [
        max(stage.spread + abs(stage.seconds - time) for stage in row)
        for row, time in zip(rows, times, strict=True)
    ]
    return replace(detector, first=(), baseline=tuple(times), spread=tuple(spread))


def _deviation(detector: Detector, observation: Observation) -> Alarm | None:
    """The largest deviation that counts; None where there is none."""
    slowest, times = max(detector.baseline), observation.times
    found: list[tuple[float, Alarm]] = []
    for s, (time, base, spread) in enumerate(
        zip(times, detector.baseline, detector.spread, strict=True)
    ):
        ratio = time / base
        delta = max(_LEAST, _SPREADS * spread / base, detector.floor)
        if ratio > 1 + delta and time >= slowest:
            found.append((ratio, Alarm(s, "slow", ratio)))
        elif ratio < 1 / (1 + delta):
            found.append((1 / ratio, Alarm(s, "fast", ratio)))
    return max(found, key=lambda pair: (pair[0], -pair[1].stage))[1] if found else None
