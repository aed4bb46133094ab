"""Whether stages take longer, or shorter again, than they did: never an answer to noise alone.

After every switch the first windows are the *baseline*: of each stage the median b and, of single
requests, the spread d. From then on, with t the median of a window,

    delta = max(the setting's, 3 d / b, what a false alarm showed)
    slow    t > b (1 + delta)  of a stage that is, or becomes, the slowest one
    fast    t < b / (1 + delta)  of any stage: something that disturbed it has ended

Only where `patience` windows in a row say the same of a stage it is an alarm (hysteresis). On a
core that is shared a request takes the time of one or of two, a spread that hides even that the
other program has ended: what goes on for `_LASTING` times as many windows is an alarm within the
spread, too. Whoever acts on an alarm says what came of it (`after_search`): where nothing was
gained, the next baseline has to wait for as many windows as the last wait, doubled (back-off), and
the next alarm needs a deviation beyond the one that was in vain. So noise, of whatever shape,
raises ever fewer alarms.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Setting

# How many spreads of single requests a deviation has to be.
_SPREADS = 3.0
# How many times `patience` a deviation within the spread has to last.
_LASTING = 4
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


class Streak(NamedTuple):
    """Windows in a row that deviated in the same way, and how: a stage and a direction."""

    length: int = 0
    key: tuple[int, Direction] | None = None

    def go_on(self, found: Alarm | None) -> Streak:
        """With one more window."""
        if found is None:
            return _NONE
        key = (found.stage, found.direction)
        return Streak(self.length + 1 if key == self.key else 1, key)


_NONE = Streak()


@dataclass(frozen=True)
class Detector:
    """What is known of the configuration that runs (see the head of this file).

    Attributes
    ----------
    patience : windows for a baseline, and in a row for an alarm; most : the longest rest.
    least : the least deviation that counts.
    first : windows of the baseline so far; baseline, spread : s, of each stage; () before.
    clear : windows in a row that deviated by more than the spread; faint : by whatever counts.
    resting : windows to wait still; wait : how long the last back-off was.
    floor : the deviation that false alarms showed to be none.
    """

    patience: int
    most: int
    least: float
    first: tuple[Observation, ...] = ()
    baseline: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()
    clear: Streak = _NONE
    faint: Streak = _NONE
    resting: int = 0
    wait: int = 0
    floor: float = 0.0

    @property
    def ready(self) -> bool:
        """Whether there is a baseline."""
        return bool(self.baseline)

    @property
    def calm(self) -> bool:
        """Whether the last window did not deviate, not even within the spread."""
        return self.clear.length == 0 and self.faint.length == 0


def make_detector(setting: Setting) -> Detector:
    """A detector that knows nothing yet."""
    return Detector(setting.patience, setting.rest, setting.deviation)


def detect(detector: Detector, observation: Observation) -> tuple[Detector, Alarm | None]:
    """Look at one more window of the configuration that runs."""
    if detector.resting > 0:
        return replace(detector, resting=detector.resting - 1), None
    if not detector.ready:
        return _extend_baseline(detector, observation), None
    found = _deviation(detector, observation, detector.spread)
    faint = _deviation(detector, observation, (0.0,) * len(detector.spread))
    clear, lasting = detector.clear.go_on(found), detector.faint.go_on(faint)
    detector = replace(detector, clear=clear, faint=lasting)
    if clear.length >= detector.patience:
        return detector, found
    return detector, faint if lasting.length >= _LASTING * detector.patience else None


def after_search(detector: Detector, alarm: Alarm | None, *, gained: bool) -> Detector:
    """The detector of the configuration that a search settled on: a baseline is taken anew.

    Parameters
    ----------
    alarm : what the search answered; None where nothing had happened.
    """
    fresh = Detector(detector.patience, detector.most, detector.least, floor=detector.floor)
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


def _deviation(
    detector: Detector, observation: Observation, spreads: Sequence[float]
) -> Alarm | None:
    """The largest deviation that counts beside such spreads; None where there is none."""
    slowest, times = max(detector.baseline), observation.times
    found: list[tuple[float, Alarm]] = []
    for s, (time, base, spread) in enumerate(zip(times, detector.baseline, spreads, strict=True)):
        ratio = time / base
        delta = max(detector.least, _SPREADS * spread / base, detector.floor)
        if ratio > 1 + delta and time >= slowest:
            found.append((ratio, Alarm(s, "slow", ratio)))
        elif ratio < 1 / (1 + delta):
            found.append((1 / ratio, Alarm(s, "fast", ratio)))
    return max(found, key=lambda pair: (pair[0], -pair[1].stage))[1] if found else None
