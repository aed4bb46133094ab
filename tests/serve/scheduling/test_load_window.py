"""Queries of one kind are as heavy as each other, though measured times move between them."""

from __future__ import annotations

import pytest

from tests.serve.scheduling.streams import refusals_of, starts_of
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.load_window import LoadKind, LoadWindow
from tvm_hetero.serve.scheduling.profile import ModelTimes, ServiceProfile
from tvm_hetero.serve.scheduling.query import Priority, Query

HIGH, LOW = Priority.HIGH, Priority.LOW


def _measure(times: ModelTimes, seconds: float) -> None:
    for _ in range(64):
        times.add(1, 1, seconds)


def _lose(policy: Accordion, count: int, now: float) -> None:
    """So many that would have to begin at once are refused."""
    for number in range(count):
        hurried = Query(1000 + number, "a", 1, now, now + 1.2)
        refusal = policy.foresee(hurried, now)
        assert refusal is not None and refusal.retry_after is not None
        policy.turned_away(hurried, refusal)


@pytest.mark.parametrize("drift", [0.9, 1.0, 1.1, 1.5])
def test_no_place_is_kept_from_a_query_for_others_of_its_own_kind(drift: float) -> None:
    times = ModelTimes([Pace(1.0, 1.0)] * 2)
    _measure(times, 1.0)
    policy = Accordion(ServiceProfile({"a": times}), 2)
    for number in range(6):
        policy.arrive(Query(number, "a", 1, 0.0, priority=LOW), 0.0)
    assert set(policy.running) == {0, 1}
    _lose(policy, 10, 0.1)
    _measure(times, drift)
    assert starts_of(policy.ended(0, 1.0)) == {2: 1}
    assert starts_of(policy.ended(1, 1.0)) == {3: 1}


@pytest.mark.parametrize("drift", [0.9, 1.0, 1.1, 1.5])
def test_who_is_as_heavy_as_those_who_were_refused_keeps_no_lighter_ones_out(drift: float) -> None:
    times = ModelTimes([Pace(1.0, 1.0)] * 2)
    _measure(times, 1.0)
    policy = Accordion(ServiceProfile({"a": times}), 2)
    for number in (0, 1):
        policy.arrive(Query(number, "a", 1, 0.0), 0.0)
    _lose(policy, 40, 0.1)
    _measure(times, drift)
    policy.ended(0, 1.0)
    assert not refusals_of(policy.arrive(Query(2, "a", 1, 1.0, 3.0), 1.0))


def test_a_window_weighs_by_what_is_known_now_and_by_what_was_known_last() -> None:
    light, heavy = ModelTimes([Pace(1.0, 1.0)]), ModelTimes([Pace(3.0, 3.0)])
    profile = ServiceProfile({"light": light, "heavy": heavy})
    window = LoadWindow(profile)
    for model in ("light", "heavy", "heavy"):
        window.append(LoadKind(model, 1, 1), LOW, due=True)
    window.lose_newest()
    window.append(5.0, HIGH, due=False)
    assert window.mean == pytest.approx((1 + 3 + 3 + 5) / 4)
    assert window.mean_lost == pytest.approx(3.0) and (window.lost, window.due) == (1, 3)
    _measure(heavy, 4.0)
    assert window.mean == pytest.approx((1 + 4 + 4 + 5) / 4)
    assert window.mean_lost == pytest.approx(4.0)
    profile.remove("heavy")  # unloaded, while its queries are remembered
    assert window.mean_lost == pytest.approx(4.0)
    assert sorted((work, count) for _, work, count in window.rows()) == [
        (1.0, 1), (4.0, 1), (4.0, 1), (5.0, 1),
    ]  # fmt: skip
    for _ in range(4):
        window.forget_oldest()
    assert len(window) == window.lost == window.due == 0
    assert window.mean == window.mean_lost == 0.0 and not list(window.rows())
    assert not window._works  # nothing is kept of kinds that are forgotten
