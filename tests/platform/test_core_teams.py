"""Teams of this machine's cores, and of made-up ones: widths, borders, kinds, names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.platform.test_discovery import NO_GPU, fake_machine
from tvm_hetero.errors import UsageError
from tvm_hetero.platform import Platform
from tvm_hetero.platform.core_teams import make_teams, parse_teams, team_name
from tvm_hetero.platform.host import Core
from tvm_hetero.platform.teams import nested


def cores(*caches: int) -> list[Core]:
    """So many cores on each last-level cache."""
    first = 0
    found = []
    for count in caches:
        found += [Core(first + i, first + i, cache=first) for i in range(count)]
        first += count
    return found


def alike(number: int) -> int:
    return 0


def test_all_teams_of_eight_cores_are_buddies() -> None:
    found = make_teams(cores(4, 4), None, alike)
    assert [len(team) for team in found] == [8, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert found[1:4] == [(0, 1, 2, 3), (4, 5, 6, 7), (0, 1)]


def test_teams_stay_within_a_cache_and_what_is_left_over_is_in_no_team_of_that_width() -> None:
    found = make_teams(cores(3, 3), (1, 2), alike)
    assert [team for team in found if len(team) == 2] == [(0, 1), (3, 4)]
    assert sorted(team for team in found if len(team) == 1) == [(i,) for i in range(6)]


def test_of_a_physical_core_one_thread_is_used() -> None:
    threads = [Core(i, i % 2) for i in range(4)]
    assert make_teams(threads, None, alike) == [(0, 1), (0,), (1,)]


def test_big_and_little_cores_make_no_team_together() -> None:
    assert make_teams(cores(4), None, lambda number: number >= 2) == [
        (0, 1), (0,), (1,), (2, 3), (2,), (3,),
    ]  # fmt: skip


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sets(st.integers(1, 5), min_size=1))
def test_any_two_teams_are_nested_or_apart(caches: list[int], widths: set[int]) -> None:
    own = cores(*caches)
    for wanted in (None, sorted(width for width in widths if width <= len(own)) or [1]):
        found = make_teams(own, wanted, alike)
        assert len(found) == len(set(found))
        for a in found:
            for b in found:
                small, large = sorted((set(a), set(b)), key=len)
                assert small <= large or small.isdisjoint(large)
        if wanted is None:
            assert tuple(range(len(own))) in found and {(core.number,) for core in own} <= {*found}


def test_widths_are_read() -> None:
    assert parse_teams("none") == () and parse_teams("all") is None
    assert parse_teams("4,1, 2") == (1, 2, 4)
    for text in ("", "0", "1,,2", "two", "-1", "1" * 5000, "9" * 10):
        with pytest.raises(UsageError, match="expected none, all or widths"):
            parse_teams(text)


def test_names_say_which_cores() -> None:
    assert [team_name(team) for team in [(3,), (0, 1, 2, 3), (0, 2)]] == [
        "core3", "cores0-3", "cores0x2",
    ]  # fmt: skip


def test_a_machine_gives_teams_only_where_they_are_asked_for(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0-1", "0-1", "2-3", "2-3"])
    plain = Platform.detect(cores=range(4), root=root, nvidia_smi=NO_GPU)
    assert plain.cliques == () and plain.names == ("cpu0", "cpu1")
    teams = Platform.detect(cores=range(4), root=root, nvidia_smi=NO_GPU, teams="all")
    assert teams.names == (
        "cores0-3", "cores0-1", "cores2-3", "core0", "core1", "core2", "core3",
    )  # fmt: skip
    assert nested(teams.devices, teams.cliques) and len(teams.cliques) == 4
    assert teams.device("cores2-3").target == {
        "kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2,
    }  # fmt: skip
    memory = plain.devices[0].memory
    assert memory is not None and {device.memory for device in teams.devices} == {memory}
    assert teams.shared_memories == (tuple(range(7)),)  # which lies there once
    assert Platform.from_dict(teams.to_dict()) == teams


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    root = fake_machine(tmp_path, ["0-1", "0-1"])
    with pytest.raises(UsageError, match="there are 2 of one kind at most"):
        Platform.detect(cores=range(2), root=root, nvidia_smi=NO_GPU, teams="1,4")
    with pytest.raises(UsageError, match="leave out the number of devices"):
        Platform.detect(2, cores=range(2), root=root, nvidia_smi=NO_GPU, teams="all")
