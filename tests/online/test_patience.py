"""How long disturbances last decides whether they are answered, and with what."""

from __future__ import annotations

import math
from dataclasses import replace

from tests.online.settings import observe
from tests.online.test_resolve import planned, slowed
from tvm_hetero.online.detection import Alarm, make_detector
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.online.policies.answers import best_answer
from tvm_hetero.online.policies.patience import START, Patience, cost_of_answer
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


def test_what_is_expected_to_last_is_what_lasted_longer_before() -> None:
    assert math.isinf(START.remaining())
    known = Patience((10, 10, 100))
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
    state = calibrate(replace(state, detector=detector, patience=Patience(lengths, lasting=1)))
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
