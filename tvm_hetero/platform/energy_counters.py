"""Energy that the processor counts itself: RAPL, as the kernel shows it below /sys/class/powercap.

A zone is a folder (``intel-rapl:0``, also on AMD) with a ``name`` (``package-0``), a counter of
microjoules (``energy_uj``) that begins again at 0 after ``max_energy_range_uj``, and zones within
it (``intel-rapl:0:1``), whose energy is in its own. So the outermost zones are added up, but for
``psys``, which is the whole board and has the packages in it. Memory is the exception: what a
``dram`` zone below a package counts is on some processors in the package's counter and on others
not, and none says which. It is not added, so that there it is left out.

A counter of 262 kJ lasts for 44 minutes of 100 W. Whoever measures for longer has to look in
between (`EnergyMeter.look`): how often a counter began again between two looks it does not say.

Since 2020 the kernel shows counters to root alone (CVE-2020-8694): then energy is not measured, and
is said not to be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ZONES = "sys/class/powercap"
_OUTERMOST = re.compile(r"intel-rapl:\d+")
_WHOLE_BOARD = "psys"


@dataclass(frozen=True)
class EnergyZone:
    """A counter: where it is, what it is called, and after how many microjoules it begins again."""

    folder: Path
    name: str
    range: int

    def read(self) -> int:
        """The counter, microjoules.

        Raises
        ------
        OSError
            If it cannot be read, or is no number.
        """
        return _read_number(self.folder / "energy_uj")


def find_energy_zones(root: str | os.PathLike[str] = "/") -> tuple[EnergyZone, ...]:
    """The outermost zones that there are, whether they may be read or not, by name."""
    return tuple(sorted(_zones(Path(root) / _ZONES), key=lambda zone: zone.name))


def _zones(folder: Path) -> Iterator[EnergyZone]:
    try:
        found = sorted(path for path in folder.iterdir() if _OUTERMOST.fullmatch(path.name))
    except OSError:
        return
    for path in found:
        try:
            name = (path / "name").read_text(encoding="utf-8", errors="replace").strip()
            most = _read_number(path / "max_energy_range_uj")
        except OSError:
            continue
        if name != _WHOLE_BOARD and most > 0:
            yield EnergyZone(path, name, most)


def why_not_measured(root: str | os.PathLike[str] = "/") -> str | None:
    """Why energy cannot be measured here, in words; None if it can."""
    zones = find_energy_zones(root)
    if not zones:
        return f"the kernel shows no counters below /{_ZONES}"
    try:
        for zone in zones:
            zone.read()
    except PermissionError:
        return f"the kernel lets only root read them (chmod o+r /{_ZONES}/intel-rapl:*/energy_uj)"
    except OSError as error:
        return f"counters cannot be read: {error}"
    return None


class EnergyMeter:
    """Joules since it was made, of all zones together.

    Raises
    ------
    OSError
        If there are no zones, or one cannot be read (`why_not_measured` says it in words).
    """

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        self.zones = find_energy_zones(root)
        if not self.zones:
            raise FileNotFoundError(f"no energy counters below /{_ZONES}")
        self._last = [zone.read() for zone in self.zones]
        self._sum = 0

    def look(self) -> float:
        """Joules so far. A counter that is lower than at the last look has begun again, once."""
        for i, zone in enumerate(self.zones):
            now = zone.read()
            self._sum += (now - self._last[i]) % (zone.range + 1)
            self._last[i] = now
        return self._sum / 1e6


def _read_number(path: Path) -> int:
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not text.isascii() or not text.isdigit():
        raise OSError(f"{path} has no number in it")
    return int(text)
