"""Links between the cores of this machine, and figures from made-up measurements."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tvm_hetero.cost_models.links.measure import (
    LEAST_BANDWIDTH,
    LEAST_LATENCY,
    MOST_BANDWIDTH,
    MOST_LATENCY,
    copy_figures,
    crossing_share,
    differing_cores,
    link_figures,
    measure_links,
    open_copies,
    open_pairs,
)
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.errors import ProfileError
from tvm_hetero.platform import Device, Fabric, Link, Platform

CORES = sorted(os.sched_getaffinity(0))
LLVM = {"kind": "llvm"}


def cpu(name: str, core: int, node: str = "node0") -> Device:
    return Device(name, node=node, target=LLVM, cores=(core,), overlap=True)


@pytest.mark.alone  # it measures until that settles, which takes long beside others
def test_both_directions_are_measured_once(tmp_path: Path) -> None:
    platform = Platform((cpu("a", CORES[0]), cpu("b", CORES[-1])))
    linked = measure_links(platform, CostStore(tmp_path / "c.sqlite"))
    assert {(link.src, link.dst) for link in linked.links} == {("a", "b"), ("b", "a")}
    for link in linked.links:
        assert LEAST_LATENCY <= link.latency <= MOST_LATENCY
        assert LEAST_BANDWIDTH <= link.bandwidth <= MOST_BANDWIDTH
        assert link.cold_bandwidth is not None
        assert LEAST_BANDWIDTH <= link.cold_bandwidth <= link.bandwidth
        assert not link.exclusive
    assert linked.links[0].latency == linked.links[1].latency  # measured there and back at once
    assert linked.devices == platform.devices
    # A second measurement would not give the same figures: they come from the store.
    store = CostStore(tmp_path / "c.sqlite")
    assert measure_links(platform, store) == linked
    anew = measure_links(platform, store, again=True)
    assert anew.names == linked.names and len(anew.links) == 2
    assert measure_links(platform, store) == anew
    assert measure_links(linked) is linked


@pytest.mark.alone  # it measures until that settles, which takes long beside others
def test_copies_to_a_private_memory_are_measured(tmp_path: Path) -> None:
    private = replace(cpu("own", CORES[-1]), private=True)
    platform = Platform((cpu("a", CORES[0]), private), shared_cores=len(CORES) < 2)
    assert open_pairs(platform) == []
    linked = measure_links(platform, CostStore(tmp_path / "c.sqlite"))
    assert {(link.src, link.dst) for link in linked.links} == {("a", "own"), ("own", "a")}
    for link in linked.links:
        assert LEAST_LATENCY <= link.latency <= MOST_LATENCY
        assert LEAST_BANDWIDTH <= link.bandwidth <= MOST_BANDWIDTH
        assert link.cold_bandwidth is None


def test_only_what_the_platform_leaves_open_is_measured() -> None:
    a, b, c = cpu("a", 0), cpu("b", 1), cpu("c", 2)
    gpu = Device("gpu", target={"kind": "cuda"})
    far, anywhere = cpu("far", 0, "node1"), Device("anywhere", target=LLVM)

    def pairs(platform: Platform) -> set[tuple[str, str]]:
        return {(x.name, y.name) for x, y in open_pairs(platform)}

    assert pairs(Platform((a, b, gpu, far, anywhere))) == {("a", "b"), ("b", "a")}
    assert pairs(Platform((a, b), (Link("a", "b"),))) == {("b", "a")}
    assert pairs(Platform((a, b, c), fabrics=(Fabric("node0"),))) == set()
    lone = Platform((a,))
    assert measure_links(lone) is lone


def test_cores_that_are_not_here(tmp_path: Path) -> None:
    absent = CORES[-1] + 1
    platform = Platform((cpu("a", CORES[0]), cpu("b", absent)))
    with pytest.raises(ProfileError, match=rf"'b' has core\(s\) \[{absent}\].*links a latency"):
        measure_links(platform, CostStore(tmp_path / "c.sqlite"))


def test_figures_of_copies_split_latency_and_rate() -> None:
    latency, bandwidth = copy_figures(
        {"4096": [9e-6, 8e-6], "1048576": [1e-3], "16777216": [8e-6 + 1.6e-3, 1.0]}
    )
    assert latency == pytest.approx(8e-6)
    assert bandwidth == pytest.approx((16777216 - 4096) / 1.6e-3, rel=0.01)
    assert copy_figures({"4096": [1e-5], "16777216": [1e-6]})[1] == MOST_BANDWIDTH


def test_a_gpu_that_is_not_here_is_left_without_a_link() -> None:
    import tvm

    gpu = Device("gpu", target={"kind": "cuda", "arch": "sm_90"}, overlap=True)
    platform = Platform((cpu("a", CORES[0]), gpu))
    present = bool(tvm.cuda(0).exist)
    assert bool(open_copies(platform)) == present


def test_noise_stays_within_bounds() -> None:
    assert link_figures(2e-6, 1e-11) == pytest.approx((2e-6, 1e11))
    assert link_figures(2e-6, 0.0)[1] == link_figures(2e-6, -1e-12)[1] == MOST_BANDWIDTH
    assert link_figures(2e-6, 1.0)[1] == LEAST_BANDWIDTH
    assert link_figures(-1e-6, 1e-11)[0] == LEAST_LATENCY
    assert link_figures(0.4, 1e-11)[0] == MOST_LATENCY


def test_of_what_goes_between_teams_that_share_cores_a_part_stays() -> None:
    def team(*cores: int) -> Device:
        return Device("t", target={"kind": "llvm"}, cores=cores)

    for src, dst, share in (
        (team(0), team(1), 1.0),
        (team(0), team(0), 0.0),
        (team(0), team(0, 1), 0.5),
        (team(0, 1), team(1), 0.5),
        (team(0, 1), team(0, 1, 2, 3), 0.5),
        (team(0, 1), team(2, 3), 1.0),
        (team(0, 1), team(1, 2), 0.5),
    ):
        assert crossing_share(src, dst) == share


def test_a_link_is_measured_between_cores_that_differ_if_there_are_any() -> None:
    def cores(src: tuple[int, ...], dst: tuple[int, ...]) -> tuple[int | None, int | None]:
        a, b = (Device("d", target={"kind": "llvm"}, cores=own) for own in (src, dst))
        return differing_cores(a, b)

    assert cores((0,), (1,)) == (0, 1)
    assert cores((0,), (0, 1)) == (0, 1)
    assert cores((0, 1), (0,)) == (1, 0)
    assert cores((1,), (0, 1)) == (1, 0)
    assert cores((0,), (0,)) == (0, 0)
