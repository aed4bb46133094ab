"""How long disturbances last decides whether they are answered, and with what."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from tests.online.driving import drive
from tests.online.settings import observe
from tests.online.test_resolve import planned, slowed
from tvm_hetero.online.detection import Alarm, make_detector
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.online.policies import make_policy
from tvm_hetero.online.policies.answers import best_answer
from tvm_hetero.online.policies.patience import START, DisturbanceHistory, cost_of_answer
from tvm_hetero.online.policies.resolve_state import ResolveState, calibrate, has_changed
from tvm_hetero.online.slowdown import EQUAL

SLOW = Alarm(0, "slow", 2.0)


def test_a_disturbance_lasts_until_another_alarm_or_none_is_heard() -> None:
    setting = planned(1, window=1)
    heard = START.hear(SLOW, setting, 1)
    assert heard.is_new and heard.lasting == setting.patience
    again = heard.hear(replace(SLOW, ratio=2.1), setting, 1)
    assert not again.is_new and again.lasting == heard.lasting + 1
    other = again.hear(replace(SLOW, ratio=3.0), setting, 1)
    assert other.is_new and other.lengths == (again.lasting,)
    assert other.go_on(7).end().lengths == (again.lasting, other.lasting + 7)
    assert START.end() == START == START.go_on(5)


def test_what_is_answered_lasts_until_the_next_alarm_however_alike() -> None:
    setting = planned(1, window=1)
    answered = START.hear(SLOW, setting, 1).answer().go_on(40)
    assert answered.hear(SLOW, setting, 1).lengths == (setting.patience + 40,)


def test_ratios_that_jitter_and_a_calm_window_are_of_the_same_disturbance() -> None:
    setting = planned(1, window=1, patience=3)
    history = START.hear(SLOW, setting, 1)
    for ratio in (2.5, 1.5, 2.0, 2.5, 2.4, 2.6, 1.6, 1.5, 1.4):
        history = history.hear(replace(SLOW, ratio=ratio), setting, 1)
    history = history.calm_down(setting).calm_down(setting).hear(SLOW, setting, 1)
    assert history.lengths == () and history.lasting == 3 + 9 + 3
    for _ in range(3):
        history = history.hear(replace(SLOW, ratio=4.0), setting, 1)
    assert history.is_new and history.lengths == (15,) and history.lasting == 3
    for _ in range(3):
        history = history.calm_down(setting)
    assert history.lengths == (15, 3) and not history.lasting


@pytest.mark.parametrize(
    "jitter", [(2.0,), (1.8, 2.2), (1.9, 2.12), (1.6, 2.5, 2.0, 2.4), (2.0,) * 8 + (1.0,)]
)
def test_what_lasts_is_answered_however_its_alarms_jitter(jitter: tuple[float, ...]) -> None:
    """After bursts that are over before an answer pays, a place becomes slow for good."""
    setting = planned(2, blocks=24, patience=3, rest=64)
    assert setting.seconds is not None
    first, quiet = setting.static.places[0], setting.seconds
    slow = slowed(setting, first, 2.0)
    worlds = [slow if w % 20 in range(10, 15) else quiet for w in range(120)]
    worlds += [slowed(setting, first, jitter[w % len(jitter)]) for w in range(120)]
    seen = list(drive(make_policy("resolve"), setting, 240, lambda w: worlds[w]))
    best = find_optimum(slow, setting.places).bottleneck
    tail = [best / bottleneck(slow, p.configuration) for _, p in seen[-60:]]
    assert statistics.fmean(tail) >= 0.9


def test_what_is_expected_to_last_is_what_lasted_longer_before() -> None:
    assert math.isinf(START.remaining())
    known = DisturbanceHistory((10, 10, 100))
    assert replace(known, lasting=4).remaining() == 6  # most do
    assert replace(known, lasting=11).remaining() == 0  # about as long as those of 10
    assert replace(known, lasting=20).remaining() == 80
    assert replace(known, lasting=110).remaining() == 0
    assert replace(known, lasting=150).remaining() == 0
    assert replace(known, lasting=201).remaining() == 201
    for _ in range(40):
        known = replace(known, lasting=3).end()
    assert set(known.lengths) == {3} and len(known.lengths) <= 16


def disturbed(lengths: tuple[int, ...]) -> ResolveState:
    """At home, with the first place 2.1 times as slow, after disturbances of such lengths."""
    setting = planned(4, blocks=24, rest=64, window=1, trial=1)
    assert setting.seconds is not None
    state = ResolveState(setting, make_detector(setting), setting.static, setting.static)
    quiet = observe(setting.seconds, setting.static)
    detector = replace(state.detector, baseline=quiet.times, spread=(0.0,) * len(quiet.times))
    state = calibrate(
        replace(state, detector=detector, history=DisturbanceHistory(lengths, lasting=1))
    )
    first = setting.static.places[0]
    factors = ((2.1, 2.1) if p == first else EQUAL for p in range(len(setting.places)))
    return replace(state, factors=tuple(factors))


def test_what_is_short_is_not_answered_and_what_lasts_is_answered_with_the_optimum() -> None:
    state = disturbed(())
    seconds = slowed(state.setting, state.setting.static.places[0], 2.1)
    best = find_optimum(seconds, state.setting.places).bottleneck
    cost = cost_of_answer(state.setting, len(state.here))
    for lengths in ((), (100 * cost,) * 3):
        found = best_answer(disturbed(lengths))
        assert found is not None and bottleneck(seconds, found) <= 1.01 * best
    assert best_answer(disturbed((cost,) * 3)) is None


def test_a_world_has_changed_where_a_place_is_disturbed_that_was_not() -> None:
    state = disturbed(())
    assert state.setting.seconds is not None
    quiet = observe(state.setting.seconds, state.home)
    slow = observe(slowed(state.setting, state.home.places[0], 2.1), state.home)
    slower = observe(slowed(state.setting, state.home.places[0], 3.0), state.home)
    assert has_changed(state, quiet, slow) and has_changed(state, slow, quiet)
    assert not has_changed(state, slow, slower) and not has_changed(state, quiet, quiet)
