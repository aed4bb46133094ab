"""Which cores of the host we are on, and measuring anew where that changed meanwhile.

The two processors of this virtual machine are moved about among the cores of its host: for minutes
they share a cache (handing over is quick, and crossing tensors cost nothing by the byte), then
they do not. Costs that were measured in one mode do not hold in the other. So
links are measured for each case, just before it and again after it, and a case during which they
changed is measured again. What they were stands in its row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.platform import Platform

Result = TypeVar("Result")
# Between the modes there is a factor of 3 to 4; within one the figures hold to some 20 %.
_OTHER_MODE = 1.7
_ATTEMPTS = 3


@dataclass(frozen=True)
class Mode:
    """The first link between two devices; `moved`: it was another one afterwards, every time.

    Attributes
    ----------
    handover_s : its latency, seconds; crossing_bps : its bandwidth, bytes per second.
    """

    handover_s: float
    crossing_bps: float
    moved: bool = False

    @property
    def text(self) -> str:
        """Microseconds of a hand-over; with a mark if that changed meanwhile."""
        return f"{1e6 * self.handover_s:.2f}{'!' if self.moved else ''}"


def in_one_mode(
    platform: Platform, measure: Callable[[Platform], Result], small: bool
) -> tuple[Result, Mode]:
    """What `measure` makes of the platform with its links, and the mode in which it did.

    A small run takes the links that the store knows, and does not look after it.
    """
    if small:
        known = measure_links(platform)
        return measure(known), _mode(known)
    linked = _measured_anew(platform)
    for _ in range(_ATTEMPTS):
        result, before = measure(linked), _mode(linked)
        linked = _measured_anew(platform)
        after = _mode(linked)
        quick, slow = sorted((before.handover_s, after.handover_s))
        if slow <= _OTHER_MODE * quick:
            return result, before
    return result, Mode(before.handover_s, before.crossing_bps, moved=True)


def _measured_anew(platform: Platform) -> Platform:
    with tempfile.TemporaryDirectory() as folder:
        return measure_links(platform, CostStore(Path(folder) / "costs.sqlite"))


def _mode(platform: Platform) -> Mode:
    link = platform.links[0]
    return Mode(link.latency, link.bandwidth)
