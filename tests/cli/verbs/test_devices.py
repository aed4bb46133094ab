from __future__ import annotations

import json
import os
from itertools import permutations
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tvm_hetero.platform import Platform

several_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="one core cannot be divided"
)


def test_lists_the_devices_of_this_machine() -> None:
    result = tvm_hetero("devices")
    assert result.status == 0
    assert "cpu0" in result.out and "llvm" in result.out


@several_cores
def test_writes_a_platform_of_unlike_devices(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    wishes = ["--split", "2", "--mcpu", "native", "--mcpu", "x86-64-v3"]
    result = tvm_hetero("devices", *wishes, "-o", path, "--json")
    assert result.status == 0
    first, second = Platform.load(path).devices
    assert second.target is not None and second.target["mcpu"] == "x86-64-v3"
    assert not set(first.cores) & set(second.cores)
    assert [row["name"] for row in json.loads(result.out)["devices"]] == ["cpu0", "cpu1"]


@pytest.mark.parametrize("count", ["4096", "4_096", "9" * 20])
def test_more_devices_than_cores(count: str, tmp_path: Path) -> None:
    """Refused by the option's name, and before a model is read: this one is not there."""
    partition = ("partition", "none.onnx", "-o", str(tmp_path / "net.hetero"))
    for verb in (("devices",), partition):
        result = tvm_hetero(*verb, "--split", count)
        assert result.status == 2
        why = f"cannot make {int(count)} CPU devices of" if len(count) < 20 else "expected at most"
        assert f"--split {int(count)}: {why}" in result.err


def test_mcpu_without_split() -> None:
    result = tvm_hetero("devices", "--mcpu", "x86-64-v3")
    assert result.status == 2
    assert "--split" in result.err


def test_writes_teams_where_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    assert tvm_hetero("devices", "--teams", "all", "-o", path).status == 0
    platform = Platform.load(path)
    every = sorted({core for device in platform.devices for core in device.cores})
    assert sorted(platform.devices[0].cores) == every


@several_cores
def test_links_and_interference_of_cores_and_teams_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    result = tvm_hetero("devices", "--teams", "1,2", "--measure", "-o", path)
    assert result.status == 0
    assert "Measure links" in result.out and "Measure interference" in result.out
    platform = Platform.load(path)
    ends = [(link.src, link.dst) for link in platform.links]
    assert sorted(ends) == sorted(permutations(platform.names, 2))
    assert {len(device.cores) for device in platform.devices} == {1, 2}
    assert all(device.interference >= 1 for device in platform.devices)
