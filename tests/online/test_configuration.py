"""Configurations: moves keep every block in exactly one stage, and all can be reached."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.online.settings import single_cores
from tvm_hetero.errors import UsageError
from tvm_hetero.online.configuration import (
    Configuration,
    Place,
    check_configuration,
    move,
    neighbours,
    read_configuration,
)

TEAMS = (Place("a", "big", (0,)), Place("b", "big", (1,)), Place("ab", "big", (0, 1)))


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    blocks = draw(st.integers(1, 12))
    cuts = draw(st.sets(st.integers(1, blocks)))
    ends = tuple(sorted(cuts | {blocks}))
    return Configuration(ends, tuple(draw(st.permutations(range(len(ends))))))


@given(configurations(), st.data())
def test_a_move_takes_from_one_stage_and_gives_to_another(
    configuration: Configuration, data: st.DataObject
) -> None:
    if len(configuration) < 2:
        return
    source, target = data.draw(st.permutations(range(len(configuration))))[:2]
    count = data.draw(st.integers(1, 4))
    found = move(configuration, source, target, count)
    before = {
        p: b - a for p, (a, b) in zip(configuration.places, configuration.ranges, strict=True)
    }
    after = {p: b - a for p, (a, b) in zip(found.places, found.ranges, strict=True)}
    moved = min(count, before[configuration.places[source]])
    before[configuration.places[source]] -= moved
    before[configuration.places[target]] += moved
    assert {p: n for p, n in before.items() if n} == after
    assert found.blocks == configuration.blocks


@given(configurations(), st.data())
def test_a_move_that_leaves_its_stage_alive_is_undone_by_the_one_back(
    configuration: Configuration, data: st.DataObject
) -> None:
    if len(configuration) < 2:
        return
    source, target = data.draw(st.permutations(range(len(configuration))))[:2]
    found = move(configuration, source, target)
    if len(found) == len(configuration):
        assert move(found, target, source) == configuration


def test_a_stage_that_gave_its_last_block_is_gone_and_its_place_idle() -> None:
    assert move(Configuration((1, 3, 4), (2, 0, 1)), 0, 1) == Configuration((3, 4), (0, 1))
    assert move(Configuration((1, 3, 4), (2, 0, 1)), 2, 0) == Configuration((2, 4), (2, 0))


@pytest.mark.parametrize("source, target, count", [(0, 0, 1), (0, 2, 1), (-1, 0, 1), (0, 1, 0)])
def test_a_move_that_means_nothing_is_refused(source: int, target: int, count: int) -> None:
    with pytest.raises(UsageError, match="cannot move"):
        move(Configuration((1, 2), (0, 1)), source, target, count)


@pytest.mark.parametrize(
    "ends, places",
    [((), ()), ((2, 2), (0, 1)), ((0, 2), (0, 1)), ((1, 2), (0, 0)), ((1, 2), (0,)), ((1,), (-1,))],
)
def test_what_is_no_pipeline_is_refused(ends: tuple[int, ...], places: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        Configuration(ends, places)


def test_places_that_share_a_core_are_not_in_one_pipeline() -> None:
    check_configuration(Configuration((1, 2), (0, 1)), 2, TEAMS)
    with pytest.raises(UsageError, match="share a core"):
        check_configuration(Configuration((1, 2), (0, 2)), 2, TEAMS)
    with pytest.raises(UsageError, match="covers 2 blocks; the chain has 3"):
        check_configuration(Configuration((2,), (0,)), 3, TEAMS)
    with pytest.raises(UsageError, match="names place 3"):
        check_configuration(Configuration((2,), (3,)), 2, TEAMS)


def test_all_configurations_can_be_reached_by_steps_and_no_other() -> None:
    places, blocks = single_cores("big", "big", "little"), 5
    seen = {Configuration((blocks,), (0,))}
    waiting = list(seen)
    while waiting:
        here = waiting.pop()
        steps = list(neighbours(here, places))
        for found in steps:
            check_configuration(found, blocks, places)
            assert found != here
        new = set(steps) - seen
        seen |= new
        waiting += new
    every = {
        Configuration((*cuts, blocks), order)
        for stages in range(1, 4)
        for cuts in combinations(range(1, blocks), stages - 1)
        for order in permutations(range(3), stages)
    }
    assert seen == every
    assert len(every) == sum(math.comb(4, k - 1) * math.perm(3, k) for k in (1, 2, 3))


def test_a_step_never_uses_a_core_twice() -> None:
    for found in neighbours(Configuration((2, 4), (0, 1)), TEAMS):
        check_configuration(found, 4, TEAMS)
    assert Configuration((4,), (2,)) in set(neighbours(Configuration((4,), (0,)), TEAMS))


@given(configurations())
def test_the_text_of_a_configuration_is_read_back(configuration: Configuration) -> None:
    places = single_cores(*["big"] * 12)
    text = configuration.text(places)
    assert read_configuration(text, configuration.blocks, places) == configuration


def test_the_text_names_blocks_and_places_and_what_is_wrong_with_it() -> None:
    places = single_cores("big", "little")
    assert Configuration((4, 5), (0, 1)).text(places) == "0-3@big0 4@little1"
    for text in ("0-3@big0 5@little1", "0-3@nobody 4@big0", "0-x@big0", "1-4@big0", ""):
        with pytest.raises(UsageError):
            read_configuration(text, 5, places)


def test_a_place_has_cores_each_once() -> None:
    for cores in ((), (1, 1)):
        with pytest.raises(UsageError, match="numbers of its cores"):
            Place("a", "big", cores)
