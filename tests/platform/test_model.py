"""Platforms: paths, and every platform that is refused."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import platforms
from tvm_hetero.errors import PlatformError
from tvm_hetero.platform import Device, Fabric, Link, Platform

ABC = (Device("a"), Device("b"), Device("c"))


def test_link_time() -> None:
    assert Link("a", "b", 8.0, 1.0).seconds(24) == 4.0
    assert Link("a", "b").seconds(10**12) == 0.0


def test_a_direct_link_wins_over_a_faster_detour() -> None:
    platform = Platform(ABC, (Link("a", "b"), Link("b", "c"), Link("a", "c", 1.0)))
    assert platform.path("a", "c", 5) == (Link("a", "c", 1.0),)
    assert platform.copy_seconds("a", "c", 5) == 5.0
    assert platform.path("a", "a", 5) == ()


def test_the_path_depends_on_the_bytes() -> None:
    devices = (*ABC, Device("d"))
    narrow = Link("a", "b", 1.0), Link("b", "d", 1.0)
    slow = Link("a", "c", math.inf, 3.0), Link("c", "d", math.inf, 3.0)
    platform = Platform(devices, (*narrow, *slow))
    assert platform.path("a", "d", 1) == narrow
    assert platform.path("a", "d", 100) == slow


def test_ties_go_to_fewer_hops_then_to_the_first_devices() -> None:
    devices = (*ABC, Device("d"))
    links = [Link("a", "c"), Link("c", "d"), Link("a", "b"), Link("b", "c"), Link("b", "d")]
    for order in itertools.permutations(links):
        path = Platform(devices, order).path("a", "d", 1)
        assert [(k.src, k.dst) for k in path] == [("a", "b"), ("b", "d")]


def test_fabrics_and_network() -> None:
    devices = (Device("a"), Device("b"), Device("x", node="node1"), Device("y", node="node1"))
    fabrics = (Fabric("node0", 8.0, 1.0, True), Fabric(None, 2.0))
    platform = Platform(devices, (Link("b", "a", 4.0),), fabrics)
    assert platform.link("a", "b") == Link("a", "b", 8.0, 1.0, True)
    assert platform.link("b", "a") == Link("b", "a", 4.0)
    assert platform.link("a", "x") == Link("a", "x", 2.0)
    assert platform.link("x", "y") is None  # node1 has no fabric
    assert platform.link("a", "a") is None
    # Over the network and back, as the network joins devices of different nodes.
    assert [k.dst for k in platform.path("x", "y", 1)] == ["a", "y"]


def test_no_path() -> None:
    platform = Platform(ABC, (Link("a", "b"),), name="broken")
    assert platform.connected("a", "b")
    assert not platform.connected("b", "a")
    with pytest.raises(PlatformError, match="'broken': no path of links leads from 'a' to 'c'"):
        platform.path("a", "c", 1)


def test_an_unknown_device_has_a_suggestion() -> None:
    platform = Platform((Device("little"), Device("big")))
    with pytest.raises(PlatformError, match=r"no device 'litle'; did you mean 'little'\?"):
        platform.device("litle")


@pytest.mark.parametrize(
    ("devices", "links", "fabrics", "message"),
    [
        ((), (), (), "no devices"),
        ((Device("a"), Device("a")), (), (), "device 'a' is given twice"),
        (ABC, (Link("a", "z"),), (), "has no device 'z'"),
        (ABC, (Link("a", "a"),), (), "joins device 'a' to itself"),
        (ABC, (Link("a", "b"), Link("a", "b", 1.0)), (), "link 'a' -> 'b' is given twice"),
        (ABC, (), (Fabric("node0"), Fabric("node0")), "fabric of node 'node0' is given twice"),
        (ABC, (), (Fabric(None), Fabric(None)), "the network is given twice"),
        (ABC, (), (Fabric("node9"),), "node 'node9': no device is there"),
        ((Device("a", target={"kind": "cuda"}, private=True),), (), (), "private, .* kind cuda"),
        ((Device("a", private=True),), (), (), "'a' is private, and of kind unknown"),
    ],
)
def test_refused(
    devices: tuple[Device, ...],
    links: tuple[Link, ...],
    fabrics: tuple[Fabric, ...],
    message: str,
) -> None:
    with pytest.raises(PlatformError, match=message):
        Platform(devices, links, fabrics)


@given(platforms(max_devices=4), st.integers(0, 64))
def test_paths_are_the_cheapest_of_all(platform: Platform, nbytes: int) -> None:
    for src, dst in itertools.permutations(platform.names, 2):
        if platform.link(src, dst):
            assert platform.path(src, dst, nbytes) == (platform.link(src, dst),)
            continue
        times = []
        between = [name for name in platform.names if name not in (src, dst)]
        for count in range(len(between) + 1):
            for stops in itertools.permutations(between, count):
                way = [platform.link(a, b) for a, b in itertools.pairwise((src, *stops, dst))]
                if all(way):
                    times.append(math.fsum(k.seconds(nbytes) for k in way if k))
        assert platform.connected(src, dst) == bool(times)
        if times:
            assert platform.copy_seconds(src, dst, nbytes) == min(times)
