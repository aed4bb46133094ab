"""Which ways there are to divide a machine's cores for one input at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.platform.test_discovery import NO_GPU, fake_machine
from tvm_hetero.platform import Device, Platform
from tvm_hetero.platform.division import ONE_CORE_EACH, Division, usual_divisions


def ways(root: Path, cores: int) -> list[Division]:
    fake_machine(root, [f"0-{cores - 1}"] * cores)
    found = Platform.detect(cores=range(cores), root=root, nvidia_smi=NO_GPU)
    return usual_divisions(found, root)


def test_on_two_cores_each_by_itself_is_what_is_there(tmp_path: Path) -> None:
    assert ways(tmp_path, 2) == [Division(teams="all"), Division()]


def test_on_more_cores_each_by_itself_comes_last(tmp_path: Path) -> None:
    assert ways(tmp_path, 4) == [Division(teams="all"), Division(), ONE_CORE_EACH]


def test_of_many_cores_there_are_single_ones_and_all(tmp_path: Path) -> None:
    assert ways(tmp_path, 12)[0] == Division(teams="1,12")


def test_no_team_is_asked_for_that_would_need_cores_of_two_kinds(tmp_path: Path) -> None:
    fake_machine(tmp_path, ["0-11"] * 12)
    for core in range(8, 12):
        (tmp_path / f"sys/devices/system/cpu/cpu{core}/cpu_capacity").write_text("512\n")
    found = Platform.detect(cores=range(12), root=tmp_path, nvidia_smi=NO_GPU)
    first = usual_divisions(found, tmp_path)[0]
    assert first == Division(teams="1,8")
    teams = Platform.detect(cores=range(12), root=tmp_path, nvidia_smi=NO_GPU, teams=first.teams)
    assert teams.names[0] == "cores0-7" and len(teams.devices) == 13


@pytest.mark.parametrize(
    "devices",
    [(Device("cpu0", cores=(0,)),), (Device("cpu0", cores=(0, 1)), Device("gpu0", overlap=True))],
)
def test_one_core_and_a_machine_with_a_gpu_are_taken_as_they_are(
    devices: tuple[Device, ...],
) -> None:
    assert usual_divisions(Platform(devices)) == [Division()]


def test_a_division_is_detected_as_it_says() -> None:
    assert Division(1).detect() == Platform.detect(1)
    assert Division(teams="1").detect() == Platform.detect(teams="1")
