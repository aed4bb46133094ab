"""How this machine's cores make CPU devices: parts of them, or teams that overlap."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

from tvm_hetero.platform.core_teams import ALL, NONE
from tvm_hetero.platform.host import read_core_kind
from tvm_hetero.platform.model import Platform

# Cores up to which there are teams of all widths: each is measured.
_ALL_WIDTHS = 8


@dataclass(frozen=True)
class Division:
    """How cores are divided.

    Attributes
    ----------
    split : into how many parts cores are divided; None: as suits the machine.
    teams : as `Platform.detect` takes it.
    """

    split: int | None = None
    teams: str = NONE

    def detect(self) -> Platform:
        """This machine's devices."""
        return Platform.detect(self.split, teams=self.teams)


ONE_CORE_EACH = Division(teams="1")


def usual_divisions(platform: Platform, root: str | os.PathLike[str] = "/") -> list[Division]:
    """The ways that may each be the quickest for one input at a time, the likeliest first.

    Teams of cores; what is there, divided; each core by itself, where that is not the same. A
    machine with a GPU, or of one core, is taken as it is.

    Parameters
    ----------
    platform : what `Platform.detect()` has found.
    root : as there.
    """
    devices = platform.devices
    if len(devices) < 2 or not all(device.cores for device in devices):
        return [Division()]
    cores = [core for device in devices for core in device.cores]
    # No team has cores of several kinds.
    widest = max(Counter(read_core_kind(core, root) for core in cores).values())
    teams = ALL if len(cores) <= _ALL_WIDTHS else f"1,{widest}"
    ways = [Division(teams=teams), Division()]
    return ways if len(cores) == len(devices) else [*ways, ONE_CORE_EACH]
