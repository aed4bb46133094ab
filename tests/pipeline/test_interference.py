"""Interference between devices: a factor of at least 1 for each of this machine's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.models import two_cpus
from tvm_hetero.cost_models.in_network.run import Rounds
from tvm_hetero.errors import ProfileError
from tvm_hetero.pipeline import interference
from tvm_hetero.pipeline.interference import measure_interference
from tvm_hetero.platform import Device, Platform

FEW = Rounds(budget=0.02, most=5, most_turns=2)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_WIDTH": 64, "_LONG": 1024, "_LAYERS": 2, "_SUMS": 2}.items():
        monkeypatch.setattr(interference, name, value)


def test_each_device_gets_a_factor() -> None:
    switch = Device("switch")
    platform = two_cpus()
    platform = replace(platform, devices=(*platform.devices, switch))
    found = measure_interference(platform, rounds=FEW)
    assert found.names == platform.names and found.links == platform.links
    for device in found.devices[:2]:
        # Of its own core nobody takes more than the half, whatever else runs here.
        assert 1.0 <= device.interference < 100
    assert found.devices[2] is switch
    blank = tuple(replace(device, interference=1.0) for device in found.devices)
    assert replace(found, devices=blank) == platform


def test_a_device_alone_is_not_disturbed() -> None:
    platform = Platform((two_cpus().devices[0], Device("switch")))
    assert measure_interference(platform, rounds=FEW) is platform


def test_a_device_that_is_not_here() -> None:
    first, second = two_cpus().devices
    platform = Platform((first, replace(second, cores=(9999,))))
    with pytest.raises(ProfileError, match="9999"):
        measure_interference(platform, rounds=FEW)
