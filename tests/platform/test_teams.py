"""Devices that share cores: who excludes whom, and what a platform of them may not say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.platform.teams import nested


def platform(*sets: tuple[int, ...]) -> Platform:
    return Platform(tuple(Device(f"t{i}", cores=cores) for i, cores in enumerate(sets)))


def test_devices_with_a_core_in_common_exclude_each_other() -> None:
    both = platform((0,), (1,), (0, 1))
    assert both.cliques == ((0, 2), (1, 2))
    assert both.rivals("t2") == ("t0", "t1")
    assert both.rivals("t0") == ("t2",)
    assert both.team_cores["t2"] == (("node0", 0), ("node0", 1))


def test_every_core_says_who_is_on_it() -> None:
    assert platform((0, 1), (1, 2)).cores == {
        ("node0", 0): (0,),
        ("node0", 1): (0, 1),
        ("node0", 2): (1,),
    }


def test_of_cores_with_the_same_devices_or_fewer_one_is_enough() -> None:
    assert platform((0, 1, 2, 3), (0, 1)).cliques == ((0, 1),)
    assert platform((0, 1, 2), (0, 1), (0,)).cliques == ((0, 1, 2),)
    assert platform((0, 1), (1, 2), (0, 2)).cliques == ((0, 1), (0, 2), (1, 2))


def test_cores_of_other_nodes_are_other_cores() -> None:
    apart = Platform((Device("a", cores=(0,)), Device("b", node="node1", cores=(0,))))
    assert apart.cliques == () and apart.team_cores == {}


def test_cores_that_may_be_shared_exclude_nobody() -> None:
    rows = platform((0,), (0, 1)).devices
    asked = Platform(rows, shared_cores=True)
    assert asked.cliques == () and asked.rivals("t0") == ()


def test_teams_of_a_node_see_one_memory_and_what_else_is_there_its_own() -> None:
    pairs = [("a", (0,)), ("b", (0, 1)), ("c", (2,)), ("d", (2, 3))]
    teams = [Device(name, cores=cores, memory=8) for name, cores in pairs]
    gpu = Device("gpu", target={"kind": "cuda"}, cores=(0,), memory=5)
    alone = Device("alone", cores=(4,), memory=5)
    there = [replace(team, name=f"{team.name}1", node="node1", memory=4) for team in teams[:2]]
    platform = Platform((*teams, gpu, alone, *there))
    assert platform.shared_memories == ((0, 1, 2, 3), (6, 7))
    assert platform.memory_of == (0, 0, 0, 0, 4, 5, 6, 6)
    unlimited = Platform(tuple(replace(team, memory=None) for team in teams))
    assert unlimited.shared_memories == ()
    assert Platform(platform.devices, shared_cores=True).shared_memories == ()


def test_levels_of_a_processor_see_its_memory_unless_they_share_cores_with_others() -> None:
    big = [Device(f"big.{i}", cores=(0, 1), level_of="big", memory=8) for i in "ab"]
    little = [Device(f"little.{i}", cores=(2,), level_of="little", memory=4) for i in "ab"]
    apart = Platform((*big, *little))
    assert apart.shared_memories == ((0, 1), (2, 3)) and apart.memory_of == (0, 0, 2, 2)
    team = Device("team", cores=(1,), memory=8)
    assert Platform((*big, *little, team)).shared_memories == ((0, 1, 4), (2, 3))
    with pytest.raises(PlatformError, match=r"'big\.a' has 'memory' 8 B and 'little\.a'"):
        Platform((*big, *little, replace(team, cores=(1, 2))))


@pytest.mark.parametrize(
    ("memory", "said"), [(None, "no 'memory'"), (9, "'memory' 9 B")], ids=["none", "another"]
)
def test_limits_that_teams_of_a_node_do_not_agree_on_are_refused(
    memory: int | None, said: str
) -> None:
    rows = (Device("a", cores=(0,), memory=8), Device("b", cores=(0, 1), memory=memory))
    with pytest.raises(PlatformError, match=f"'a' has 'memory' 8 B and 'b' {said}.*one memory"):
        Platform(rows)
    assert Platform(rows, shared_cores=True).devices == rows
    assert Platform((rows[0], Device("b", cores=(1,), memory=memory))).memory_of == (0, 1)


def test_teams_are_nested_where_one_holds_the_other() -> None:
    for sets, expected in (
        (((0,), (1,), (0, 1)), True),
        (((0,), (0, 1), (0, 1, 2)), True),
        (((0, 1), (1, 2)), False),
        (((0,), (1, 2), (0, 1, 2), (2, 3)), False),
    ):
        own = platform(*sets)
        assert nested(own.devices, own.cliques) is expected
