"""`resolve`: near the best under a disturbance within two trials, straight back when it ends."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.online.driving import Seen, drive
from tests.online.settings import Seconds, observe, random_setting, single_cores
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.detection import make_detector
from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.online.policies import make_policy, resolve
from tvm_hetero.online.policies.resolve_state import ResolveRound, ResolveState, calibrate
from tvm_hetero.online.policy import Setting
from tvm_hetero.online.slowdown import estimate_factors

QUICK = {"patience": 1, "rest": 0}


def planned(seed: int, blocks: int = 16, **given: object) -> Setting:
    """A random setting whose static configuration is the best in quiet."""
    setting = random_setting(seed, blocks=blocks, **(QUICK | {"margin": 0.01} | given))
    assert setting.seconds is not None
    static = find_optimum(setting.seconds, setting.places).configuration
    return replace(setting, static=static)


def slowed(setting: Setting, place: int, factor: float, memory: float | None = None) -> Seconds:
    """The seconds while one place is slower; memory-bound blocks maybe by another factor."""
    assert setting.seconds is not None
    found = []
    for b, row in enumerate(setting.seconds):
        bound = setting.classes[b] if setting.classes else ""
        by = memory if memory is not None and bound == "memory" else factor
        found.append(tuple(t * by if p == place else t for p, t in enumerate(row)))
    return tuple(found)


def trials(seen: list[Seen]) -> int:
    return sum(proposal.searching for _, proposal in seen)


@pytest.mark.parametrize("seed", range(25))
def test_two_trials_bring_it_near_the_best_under_a_disturbance(seed: int) -> None:
    setting = planned(seed)
    place = setting.static.places[seed % len(setting.static)]
    disturbed = slowed(setting, place, 1.2 + 0.15 * seed)
    seen = list(
        drive(
            make_policy("resolve"), setting, 12, lambda w: disturbed if w >= 2 else setting.seconds
        )
    )  # type: ignore[return-value]
    settled = next(i for i, (_, p) in enumerate(seen) if i >= 2 and p.phase == "settled")
    assert trials(seen[: settled + 1]) <= 2
    best = find_optimum(disturbed, setting.places).bottleneck
    assert best / bottleneck(disturbed, seen[settled][1].configuration) >= 0.95


@pytest.mark.parametrize("seed", range(15))
def test_memory_bound_blocks_that_suffer_more_are_told_apart_by_the_second_trial(
    seed: int,
) -> None:
    draw = random.Random(seed)
    classes = tuple(draw.choice(["compute", "memory"]) for _ in range(24))
    setting = planned(seed, blocks=24, classes=classes)
    place = setting.static.places[0]
    disturbed = slowed(setting, place, 1.1, 3.0)
    seen = list(
        drive(
            make_policy("resolve"), setting, 10, lambda w: disturbed if w >= 2 else setting.seconds
        )
    )  # type: ignore[return-value]
    best = find_optimum(disturbed, setting.places).bottleneck
    assert best / bottleneck(disturbed, seen[-1][1].configuration) >= 0.9


def test_when_a_disturbance_ends_it_goes_straight_back() -> None:
    for seed in range(12):
        setting = planned(seed)
        disturbed = slowed(setting, setting.static.places[-1], 1.7)
        seen = list(
            drive(
                make_policy("resolve"),
                setting,
                60,
                lambda w, d=disturbed, q=setting.seconds: d if 5 <= w < 20 else q,  # type: ignore[misc]
            )
        )
        during = seen[19][1].configuration
        if setting.static.places[-1] not in during.places:
            continue  # a probe finds out, see below
        back = next(i for i, (_, p) in enumerate(seen[20:]) if p.configuration == setting.static)
        assert back == 0 and trials(seen[20:]) == 0
        assert all(p.configuration == setting.static for _, p in seen[20:])


def test_a_disturbance_that_was_there_before_is_answered_with_what_fitted_it() -> None:
    setting = planned(4, blocks=24)
    disturbed = slowed(setting, setting.static.places[0], 2.1)
    days = [disturbed if w % 20 >= 10 else setting.seconds for w in range(80)]
    seen = list(drive(make_policy("resolve"), setting, 80, lambda w: days[w]))  # type: ignore[arg-type, return-value]
    first = {p.configuration for _, p in seen[18:20]}
    for day in (1, 2, 3):
        (_, answer), *rest = seen[20 * day + 10 : 20 * day + 20]
        assert "what fitted such a disturbance before" in answer.why
        assert {answer.configuration} == first
        assert trials([(seen[0][0], answer), *rest]) == 1


def test_an_idle_place_is_probed_and_used_again_when_it_is_well() -> None:
    places = single_cores("big", "big")
    quiet = ((1.0, 1.0), (1.0, 1.0))
    static = Configuration((1, 2), (0, 1))
    setting = Setting(places, (1.0, 1.0), static, quiet, patience=1, rest=0)
    slow = tuple((a, 10 * b) for a, b in quiet)
    seen = list(
        drive(make_policy("resolve"), setting, 400, lambda w: slow if 5 <= w < 60 else quiet)
    )
    assert len(seen[50][1].configuration) == 1
    assert sorted(seen[-1][1].configuration.places) == [0, 1]
    # In vain it is tried ever more seldom: 4, 8, 16, ... windows apart.
    assert 2 <= trials(seen[7:60]) <= 6


def test_disturbances_that_end_before_an_answer_pays_are_soon_left_alone() -> None:
    setting = planned(4, blocks=24, rest=64, window=1, trial=1)
    disturbed = slowed(setting, setting.static.places[0], 2.1)
    brief = [disturbed if w % 40 < 4 else setting.seconds for w in range(1200)]
    seen = list(drive(make_policy("resolve"), setting, 1200, lambda w: brief[w]))  # type: ignore[arg-type, return-value]
    assert trials(seen[:200]) >= 1 and trials(seen[600:]) <= 2
    lasting = [disturbed if w % 400 >= 200 else setting.seconds for w in range(1200)]
    seen = list(drive(make_policy("resolve"), setting, 1200, lambda w: lasting[w]))  # type: ignore[arg-type, return-value]
    for day in range(3):
        assert seen[400 * day + 150][1].configuration == setting.static
        assert seen[400 * day + 350][1].configuration != setting.static


def test_what_was_taken_for_quiet_and_was_not_is_learned_when_it_ends() -> None:
    setting = planned(4, blocks=24, rest=64)
    assert setting.seconds is not None
    disturbed = slowed(setting, setting.static.places[0], 2.1)
    seen = list(
        drive(
            make_policy("resolve"), setting, 60, lambda w: disturbed if w < 20 else setting.seconds
        )
    )  # type: ignore[return-value]
    best = find_optimum(setting.seconds, setting.places).bottleneck
    assert best / bottleneck(setting.seconds, seen[-1][1].configuration) >= 0.97


def test_what_slows_all_places_alike_is_not_answered() -> None:
    setting = planned(5)
    assert setting.seconds is not None
    slow = tuple(tuple(2 * t for t in row) for row in setting.seconds)
    seen = list(
        drive(make_policy("resolve"), setting, 40, lambda w: slow if w >= 5 else setting.seconds)
    )  # type: ignore[return-value]
    assert trials(seen) == 0
    assert all(p.configuration == setting.static for _, p in seen)


def test_a_static_configuration_that_is_not_the_best_is_left_at_once() -> None:
    setting = random_setting(2, blocks=12, **QUICK)
    assert setting.seconds is not None
    seen = list(drive(make_policy("resolve"), setting, 6))
    best = find_optimum(setting.seconds, setting.places).bottleneck
    assert bottleneck(setting.seconds, seen[-1][1].configuration) == pytest.approx(best, rel=0.03)


def test_seconds_that_are_wrong_by_a_factor_for_each_place_are_calibrated() -> None:
    setting = planned(1)
    assert setting.seconds is not None
    world = tuple(tuple(t * (3 + p) for p, t in enumerate(row)) for row in setting.seconds)
    seen = list(drive(make_policy("resolve"), setting, 8, lambda w: world))
    best = find_optimum(world, setting.places).bottleneck
    assert best / bottleneck(world, seen[-1][1].configuration) >= 0.95


def test_a_rate_by_the_slowest_stage_is_not_compared_with_one_that_was_measured() -> None:
    """Of a trial without work for all of its time no rate is known: its stages are no quicker."""
    weights = (1.0, 1.0, 0.5, 1.0, 1.0, 1.0)
    seconds = tuple((weight, weight) for weight in weights)
    static, other = Configuration((2, 6), (0, 1)), Configuration((3, 6), (0, 1))
    setting = Setting(single_cores("big", "little"), weights, static, seconds)
    policy = make_policy("resolve")
    state, proposal = policy.begin(setting)
    asked = []
    for _ in range(12):
        asked.append(proposal.configuration)
        here = proposal.configuration == static
        stages = (StageTime(2.0 if here else 3.0), StageTime(3.5))
        seen = Observation(asked[-1], 20, 80.0, 0.8 / 3.5 if here else None, stages)  # type: ignore[arg-type]
        state, proposal = policy.step(state, seen)
    assert other in asked and proposal.configuration == static


def test_what_fitted_a_disturbance_that_ended_during_the_search_is_no_new_home() -> None:
    """Seen in quiet, it is better than what the search began with, and no better than home."""
    for seed in range(8):
        setting = planned(seed, blocks=24, rest=64)
        first, last = setting.static.places[0], setting.static.places[-1]
        for after in (6, 8, 9):
            days = {w: slowed(setting, first, 2.1) for w in range(5, after)}
            days |= {w: slowed(setting, last, 2.4) for w in range(after + 2, after + 5)}
            world = [days.get(w, setting.seconds) for w in range(90)]
            seen = list(drive(make_policy("resolve"), setting, 90, lambda w, d=world: d[w]))  # type: ignore[misc]
            assert seen[-1][1].configuration == setting.static


def test_what_watched_the_old_home_is_not_taken_for_the_new_one() -> None:
    setting = replace(random_setting(4, blocks=12, rest=64), static=Configuration((12,), (0,)))
    assert setting.seconds is not None
    quiet, better = (
        observe(setting.seconds, c) for c in (setting.static, Configuration((6, 12), (0, 1)))
    )
    detector = replace(make_detector(setting), baseline=quiet.times, spread=(0.0,))
    state = calibrate(ResolveState(setting, detector, setting.static, setting.static))
    found = ResolveRound(None, quiet, better, (quiet, better))
    state, _ = resolve._conclude(replace(state, known=detector), found, "")
    assert state.home == better.configuration
    for _ in range(setting.patience):
        state, _ = resolve.step(state, better)  # type: ignore[assignment]
    assert state.detector.baseline == better.times


def test_a_baseline_of_what_disturbs_is_not_what_home_takes_in_quiet() -> None:
    """All places are slower for good: an answer in vain, and home has a baseline of that."""
    setting = planned(5, rest=4)
    assert setting.seconds is not None
    policy = make_policy("resolve")
    state, proposal = policy.begin(setting)
    quiet = observe(setting.seconds, setting.static)
    for window in range(40):
        factor = 1.4 if window >= 5 else 1.0
        seconds = tuple(tuple(factor * t for t in row) for row in setting.seconds)
        seen = observe(seconds, proposal.configuration, proposal.requests)
        state, proposal = policy.step(state, seen)
    assert isinstance(state, ResolveState) and state.here == state.home == setting.static
    assert state.detector.baseline == pytest.approx([1.4 * t for t in quiet.times])
    assert state.known is not None and state.known.baseline == quiet.times


# ---------------------------------------------------------------------------------- slowdowns


def one_stage(seconds: float, delay: float | None = None) -> Observation:
    stage = StageTime(seconds, 0.0, None, delay)
    return Observation(Configuration((2,), (0,)), 5, 5 * seconds, None, (stage,))


def mixed() -> Setting:
    places = single_cores("big")
    static = Configuration((2,), (0,))
    rows = ((1.0,), (1.0,))
    return Setting(places, (1.0, 1.0), static, rows, classes=("compute", "memory"))


def test_one_time_makes_one_factor_and_two_mixtures_tell_the_classes_apart() -> None:
    setting = mixed()
    assert setting.seconds is not None
    assert estimate_factors(setting, setting.seconds, [one_stage(3.0)])[0] == pytest.approx(
        (1.5, 1.5), rel=0.01
    )
    half = Observation(
        Configuration((1, 2), (0, 1)), 5, 9.0, None, (StageTime(1.0), StageTime(1.0))
    )
    two = replace(setting, places=single_cores("big", "big"), seconds=((1.0, 1.0), (1.0, 1.0)))
    assert two.seconds is not None
    found = estimate_factors(two, two.seconds, [one_stage(3.0), half])
    assert found[0] == pytest.approx((1.0, 2.0), rel=0.02)


def test_where_the_core_was_not_shared_memory_is_blamed() -> None:
    setting = mixed()
    assert setting.seconds is not None
    unshared = estimate_factors(setting, setting.seconds, [one_stage(3.0, delay=0.0)])[0]
    assert unshared == pytest.approx((1.0, 2.0), rel=0.01)
    shared = estimate_factors(setting, setting.seconds, [one_stage(3.0, delay=0.9)])[0]
    assert shared == pytest.approx((1.5, 1.5), rel=0.01)
    absurd = estimate_factors(setting, setting.seconds, [one_stage(20.0, delay=0.0)])[0]
    assert absurd == pytest.approx((10.0, 10.0), rel=0.01)
