"""The exact optimum of a chain against every configuration there is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

import pytest

from tests.online.settings import random_setting, single_cores
from tvm_hetero.errors import UsageError
from tvm_hetero.online import optimum
from tvm_hetero.online.configuration import Configuration, Place, check_configuration
from tvm_hetero.online.optimum import Optimum, bottleneck, find_near, find_optimum, stage_seconds


def every_configuration(blocks: int, places: Sequence[Place]) -> Iterator[Configuration]:
    for stages in range(1, min(blocks, len(places)) + 1):
        for order in permutations(range(len(places)), stages):
            if not any(places[a].excludes(places[b]) for a, b in combinations(order, 2)):
                for cuts in combinations(range(1, blocks), stages - 1):
                    yield Configuration((*cuts, blocks), order)


def brute_force(seconds: Sequence[Sequence[float]], places: Sequence[Place]) -> float:
    every = every_configuration(len(seconds), places)
    return min(bottleneck(seconds, configuration) for configuration in every)


def random_seconds(draw: random.Random, blocks: int, places: int) -> list[list[float]]:
    return [[draw.uniform(0.1, 3.0) for _ in range(places)] for _ in range(blocks)]


@pytest.mark.parametrize("seed", range(20))
def test_no_configuration_of_cores_beats_it(seed: int) -> None:
    draw = random.Random(seed)
    blocks, places = draw.randint(1, 7), single_cores(*["big"] * draw.randint(1, 4))
    seconds = random_seconds(draw, blocks, len(places))
    found = find_optimum(seconds, places)
    check_configuration(found.configuration, blocks, places)
    assert found.proven
    assert found.bottleneck == pytest.approx(brute_force(seconds, places), rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_alike_places_are_counted_and_the_answer_is_the_same(seed: int) -> None:
    setting = random_setting(seed, blocks=7)
    assert setting.seconds is not None
    found = find_optimum(setting.seconds, setting.places)
    best = brute_force(setting.seconds, setting.places)
    assert found.bottleneck == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_no_configuration_of_teams_beats_it(seed: int) -> None:
    draw = random.Random(seed)
    places = [
        Place("a", "big", (0,)), Place("b", "big", (1,)), Place("ab", "big", (0, 1)),
        Place("c", "little", (2,)), Place("d", "little", (3,)), Place("cd", "little", (2, 3)),
    ]  # fmt: skip
    seconds = random_seconds(draw, 5, len(places))
    found = find_optimum(seconds, places)
    check_configuration(found.configuration, 5, places)
    assert found.proven
    assert found.bottleneck == pytest.approx(brute_force(seconds, places), rel=1e-9)


def test_a_block_runs_only_where_it_can() -> None:
    inf = float("inf")
    found = find_optimum([[inf, 1.0], [1.0, inf]], single_cores("big", "big"))
    assert found.configuration == Configuration((1, 2), (1, 0))
    with pytest.raises(UsageError, match="on some place"):
        find_optimum([[inf, inf]], single_cores("big", "big"))


def test_among_equals_it_takes_the_fewest_stages() -> None:
    found = find_optimum([[5.0, 5.0, 5.0], [1.0, 1.0, 1.0]], single_cores(*["big"] * 3))
    assert len(found.configuration) == 2
    found = find_optimum([[5.0, 50.0], [1e-9, 50.0]], single_cores("big", "little"))
    assert len(found.configuration) == 1


@pytest.mark.parametrize("slack", [0.0, 0.1, 0.5])
def test_with_slack_it_takes_the_most_stages_that_are_nearly_as_good(slack: float) -> None:
    for seed in range(10):
        draw = random.Random(seed)
        places = single_cores(*["big"] * 3)
        seconds = random_seconds(draw, 5, 3)
        found = find_optimum(seconds, places, slack=slack)
        best = brute_force(seconds, places)
        near = [
            configuration
            for configuration in every_configuration(5, places)
            if bottleneck(seconds, configuration) <= best * (1 + slack) * (1 + 1e-9)
        ]
        assert found.configuration in near
        assert len(found.configuration) == max(map(len, near))


def test_what_changes_little_is_preferred_where_it_is_as_good() -> None:
    for seed in range(20):
        draw = random.Random(seed)
        places = single_cores(*["big"] * 4)
        weights = [draw.uniform(0.5, 2.0) for _ in range(12)]
        seconds = [[w * (1.5 if e == 2 else 1.0) for e in range(4)] for w in weights]
        current = Configuration((3, 6, 9, 12), (3, 1, 0, 2))
        best = find_optimum(seconds, places).bottleneck
        near = find_near(seconds, places, current, 0.05)
        assert bottleneck(seconds, near) <= best * 1.05
        same = [c for c in every_cut(12, current.places) if bottleneck(seconds, c) <= best * 1.05]
        assert near.places == current.places or not same


def every_cut(blocks: int, places: tuple[int, ...]) -> Iterator[Configuration]:
    for cuts in combinations(range(1, blocks), len(places) - 1):
        yield Configuration((*cuts, blocks), places)


def test_fifty_two_places_and_a_slow_one_are_solved_exactly() -> None:
    draw = random.Random(1)
    weights = [draw.uniform(0.5, 2.0) for _ in range(155)]
    seconds = [[w * (2.5 if e == 20 else 1.0) for e in range(52)] for w in weights]
    found = find_optimum(seconds, single_cores(*["big"] * 52))
    assert found.proven
    assert found.bottleneck >= sum(weights) / 51.4 - 1e-9
    assert max(stage_seconds(seconds, found.configuration)) == pytest.approx(found.bottleneck)


def test_where_there_are_too_many_states_nothing_is_called_proven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(3)
    places = single_cores(*["big"] * 4)
    seconds = random_seconds(draw, 6, 4)
    current = Configuration((2, 4, 6), (3, 1, 0))
    best = find_optimum(seconds, places)
    monkeypatch.setattr(optimum, "_MOST_STATES", 3)
    found: Optimum = find_optimum(seconds, places, current)
    assert not found.proven
    assert best.bottleneck <= found.bottleneck <= bottleneck(seconds, current)


@pytest.mark.parametrize("seconds", [[], [[1.0]], [[1.0, 0.0]], [[1.0, float("nan")]]])
def test_seconds_that_make_no_sense_are_refused(seconds: list[list[float]]) -> None:
    with pytest.raises(UsageError):
        find_optimum(seconds, single_cores("big", "big"))
