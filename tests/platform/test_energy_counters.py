"""RAPL's counters, in folders as the kernel has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_hetero.platform import energy_counters
from tvm_hetero.platform.energy_counters import EnergyMeter, find_energy_zones, why_not_measured

RANGE = 262143328850


def zone(root: Path, folder: str, name: str, counter: str) -> Path:
    made = root / "sys/class/powercap" / folder
    made.mkdir(parents=True)
    (made / "name").write_text(f"{name}\n")
    (made / "max_energy_range_uj").write_text(f"{RANGE}\n")
    (made / "energy_uj").write_text(f"{counter}\n")
    return made / "energy_uj"


def test_packages_are_added_up_and_what_is_in_them_is_not(tmp_path: Path) -> None:
    (tmp_path / "sys/class/powercap/intel-rapl").mkdir(parents=True)
    first = zone(tmp_path, "intel-rapl:0", "package-0", "1000000")
    inner = zone(tmp_path, "intel-rapl:0:0", "core", "0")
    second = zone(tmp_path, "intel-rapl:1", "package-1", "5")
    board = zone(tmp_path, "intel-rapl:2", "psys", "0")
    assert [each.name for each in find_energy_zones(tmp_path)] == ["package-0", "package-1"]
    assert why_not_measured(tmp_path) is None
    meter = EnergyMeter(tmp_path)
    for file, counter in ((first, 3000000), (inner, 10**9), (second, 500005), (board, 10**9)):
        file.write_text(f"{counter}\n")
    assert meter.look() == 2.5
    assert meter.look() == 2.5


def test_a_counter_that_begins_again_goes_on(tmp_path: Path) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", str(RANGE - 10))
    meter = EnergyMeter(tmp_path)
    counter.write_text("1999989\n")  # 11 to 0, and on
    assert meter.look() == 2.0
    counter.write_text("2999989\n")
    assert meter.look() == 3.0


def test_without_counters_it_is_said_why(tmp_path: Path) -> None:
    assert "shows no counters" in (why_not_measured(tmp_path) or "")
    with pytest.raises(OSError, match="no energy counters"):
        EnergyMeter(tmp_path)
    counter = zone(tmp_path, "intel-rapl:0", "package-0", "soon")
    assert "has no number in it" in (why_not_measured(tmp_path) or "")
    counter.unlink()
    assert "cannot be read" in (why_not_measured(tmp_path) or "")


def test_a_refused_permission_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read every file, so the refusal is that of the one function that reads."""
    zone(tmp_path, "intel-rapl:0", "package-0", "1")
    real = energy_counters._read_number

    def refuse(path: Path) -> int:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(energy_counters, "_read_number", refuse)
    assert "only root" in (why_not_measured(tmp_path) or "")
    with pytest.raises(PermissionError):
        EnergyMeter(tmp_path)
