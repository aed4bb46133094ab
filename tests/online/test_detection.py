"""Detection: a disturbance that lasts is seen in both directions, noise alone is not acted on."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator

import pytest

from tests.online.settings import single_cores
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.detection import Alarm, Detector, after_search, detect, make_detector
from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.policies import make_policy
from tvm_hetero.online.policy import Setting

TWO = Configuration((3, 6), (0, 1))


def setting(**given: int) -> Setting:
    seconds = ((0.002, 0.002),) * 6
    return Setting(single_cores("big", "big"), (1.0,) * 6, TWO, seconds, **given)  # type: ignore[arg-type]


def window(*times: float, spread: float = 0.0) -> Observation:
    stages = tuple(StageTime(time, spread) for time in times)
    return Observation(TWO, 20, 20 * max(times), 1 / max(times), stages)


def alarms(detector: Detector, windows: Iterator[Observation] | list[Observation]) -> list[Alarm]:
    found = []
    for each in windows:
        detector, alarm = detect(detector, each)
        if alarm is not None:
            found.append(alarm)
    return found


def ready(*times: float, spread: float = 0.0) -> Detector:
    detector = make_detector(setting())
    for _ in range(3):
        detector, _ = detect(detector, window(*times, spread=spread))
    assert detector.ready
    return detector


def test_a_stage_that_takes_longer_three_windows_in_a_row_is_an_alarm() -> None:
    (first, *_) = alarms(ready(6.0, 6.0), [window(6.0, 9.0)] * 3)
    assert (first.stage, first.direction, first.ratio) == (1, "slow", 1.5)
    assert "stage 1 takes longer than it did, by a factor of 1.50" in first.text()
    assert not alarms(ready(6.0, 6.0), [window(6.0, 9.0)] * 2)
    broken = [window(6.0, 9.0), window(6.0, 9.0), window(6.0, 6.0)] * 5
    assert not alarms(ready(6.0, 6.0), broken)


def test_a_stage_that_takes_shorter_again_is_an_alarm_too() -> None:
    (first, *_) = alarms(ready(6.0, 9.0), [window(6.0, 6.0)] * 3)
    assert (first.stage, first.direction) == (1, "fast")


def test_a_slower_stage_that_is_not_the_slowest_does_not_matter() -> None:
    assert not alarms(ready(6.0, 2.0), [window(6.0, 4.0)] * 9)
    assert alarms(ready(6.0, 2.0), [window(6.0, 6.5)] * 3)


def test_within_the_spread_of_single_requests_nothing_counts() -> None:
    assert alarms(ready(6.0, 6.0), [window(6.0, 7.0)] * 3)
    assert not alarms(ready(6.0, 6.0, spread=0.4), [window(6.0, 7.0)] * 9)


def test_within_the_spread_what_lasts_counts_and_what_comes_and_goes_does_not() -> None:
    wide = ready(6.0, 6.0, spread=4.0)
    (first, *more) = alarms(wide, [window(3.0, 6.0)] * 13)
    assert (first.stage, first.direction, len(more)) == (0, "fast", 1)
    assert not alarms(wide, ([window(3.0, 6.0)] * 11 + [window(6.0, 6.0)]) * 3)
    assert not alarms(wide, [window(5.9, 6.1)] * 40)


def test_the_end_of_a_disturbance_is_seen_as_it_was_recorded_of_a_server() -> None:
    """A program wanted half of a stage's core: its requests took 2.5 ms or 6.5 (stage seconds)."""
    shared = [4.91, 5.08, 5.12, 4.06, 3.90, 5.38, 4.80, 5.04, 4.97, 4.58, 4.70, 5.14, 4.18, 4.64]
    alone = [2.39, 2.01, 2.48, 2.43, 2.36, 2.91, 2.74, 2.34, 2.53, 2.61, 1.96, 2.26, 2.36, 2.50]
    windows = [window(time, 5.6, spread=2.5) for time in shared]
    assert not alarms(make_detector(setting()), windows)
    (first, *_) = alarms(ready(*shared[:2], spread=2.5), [window(t, 5.3) for t in alone])
    assert (first.stage, first.direction) == (0, "fast")


def test_after_a_search_in_vain_it_waits_and_wants_to_see_more() -> None:
    alarm = Alarm(1, "slow", 1.2)
    detector, waits = make_detector(setting(rest=8)), []
    for _ in range(6):
        detector = after_search(detector, alarm, gained=False)
        waits.append(detector.resting)
    assert waits == [1, 2, 4, 8, 8, 8]
    assert detector.floor == pytest.approx(0.22)
    gained = after_search(detector, alarm, gained=True)
    assert gained.resting == 0 and gained.floor == detector.floor


Noise = Callable[[random.Random], Iterator[float]]


def lognormal(draw: random.Random) -> Iterator[float]:
    while True:
        yield math.exp(draw.gauss(0, 0.1))


def heavy(draw: random.Random) -> Iterator[float]:
    """One request in fifty takes up to five times as long."""
    while True:
        yield draw.uniform(1.5, 5.0) if draw.random() < 0.02 else math.exp(draw.gauss(0, 0.03))


def bursty(draw: random.Random) -> Iterator[float]:
    """As on a shared machine: short times of trouble, up to a window and a half long."""
    while True:
        for _ in range(100 + int(draw.expovariate(1 / 2000))):
            yield math.exp(draw.gauss(0, 0.05))
        factor = draw.uniform(1.2, 2.5)
        for _ in range(draw.randint(1, 30)):
            yield factor * math.exp(draw.gauss(0, 0.05))


def drifting(draw: random.Random) -> Iterator[float]:
    """A clock that goes up and down a little, slowly."""
    level = 0.0
    while True:
        level = 0.999 * level + draw.gauss(0, 0.001)
        yield math.exp(level + draw.gauss(0, 0.03))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [lognormal, heavy, bursty, drifting], ids=lambda n: n.__name__)
@pytest.mark.parametrize("name", ["resolve", "odin"])
def test_noise_alone_makes_at_most_one_switch_an_hour(name: str, noise: Noise) -> None:
    """Windows of 20 requests of 12 ms each: an hour has 15,000; here are ten minutes of it a seed,
    for six of them.
    """
    switches = 0
    for seed in range(6):
        draw = random.Random(seed)
        both = [noise(random.Random(seed * 2 + s)) for s in range(2)]
        policy = make_policy(name)
        state, proposal = policy.begin(setting())
        before = proposal.configuration
        base = draw.uniform(0.9, 1.1)
        for _ in range(2500):
            rows = [[0.002 * base * next(source) for _ in range(20)] for source in both]
            times = [statistics.median(row) for row in rows]
            stages = []
            for row, time, (a, b) in zip(rows, times, proposal.configuration.ranges, strict=False):
                spread = 1.4826 * statistics.median(abs(x - time) for x in row)
                stages.append(StageTime(time * (b - a), spread * (b - a)))
            slowest = max(stage.seconds for stage in stages)
            seen = Observation(proposal.configuration, 20, 20 * slowest, 1 / slowest, tuple(stages))
            state, proposal = policy.step(state, seen)
            switches += proposal.configuration != before
            before = proposal.configuration
    assert switches <= 1
