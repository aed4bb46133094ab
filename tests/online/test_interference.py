"""A disturbance is told once when it begins and once when it has ended, and noise is not told."""

from __future__ import annotations

import random

import pytest

from tests.online.settings import observe, single_cores
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.interference import begin_watching, watch_interference
from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.policy import Setting

TWO, OTHER = Configuration((3, 6), (0, 1)), Configuration((4, 6), (0, 1))
QUIET, SLOW = ((1.0, 1.0),) * 6, ((1.0, 1.6),) * 6
SETTING = Setting(single_cores("big", "big"), (1.0,) * 6, TWO, QUIET)


def told(windows: list[Observation]) -> list[tuple[int, str]]:
    """What is told, and at which window."""
    state, found = begin_watching(SETTING), []
    for number, window in enumerate(windows):
        state, change = watch_interference(state, window)
        if change:
            found.append((number, change))
    return found


def windows(seconds: tuple[tuple[float, float], ...], count: int) -> list[Observation]:
    return [observe(seconds, TWO)] * count


def test_it_is_told_when_it_begins_and_when_it_has_ended() -> None:
    seen = windows(QUIET, 6) + windows(SLOW, 9) + windows(QUIET, 9) + windows(SLOW, 3)
    assert told(seen) == [(8, "begun"), (17, "ended"), (26, "begun")]


def test_what_goes_on_within_the_spread_has_not_ended_when_one_window_was_quick() -> None:
    def noisy(seconds: float, count: int) -> list[Observation]:
        stages = (StageTime(seconds, 1.5), StageTime(2.4, 0.1))
        return [Observation(TWO, 20, 20 * seconds, None, stages)] * count

    slow = (noisy(4.0, 12) + noisy(2.6, 1)) * 2 + noisy(4.0, 12)
    assert told(noisy(2.5, 3) + slow + noisy(2.5, 3)) == [(14, "begun"), (43, "ended")]


def test_what_was_there_from_the_beginning_is_no_news_when_it_ends() -> None:
    seen = windows(SLOW, 6) + windows(QUIET, 9) + windows(SLOW, 3)
    assert told(seen) == [(17, "begun")]


def test_another_configuration_has_a_baseline_of_its_own() -> None:
    moved = [observe(SLOW, OTHER)] * 9
    seen = windows(QUIET, 6) + windows(SLOW, 3) + moved
    assert told(seen) == [(8, "begun"), (14, "ended")]  # it is as quick as it was there at first


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_not_told(seed: int) -> None:
    draw = random.Random(seed)

    def noisy() -> Observation:
        stages = tuple(StageTime(draw.gauss(3.0, 0.1), 0.2) for _ in range(2))
        return Observation(TWO, 20, 60.0, None, stages)

    assert told([noisy() for _ in range(300)]) == []
