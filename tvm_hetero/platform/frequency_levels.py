"""Frequency levels: one device that can be clocked in several ways, told as several devices.

A device's row with ``levels`` stands for one device a level, called ``NAME.LEVEL``. They are teams
on the same cores, so that no two of them ever compute at once (rule 2), each core idles and is paid
for once (rule 7), and they see one memory (rule 6): which level a task runs at is which device it
is placed on, and solvers that know teams decide it. Of a level

    peak_flops    is the device's times its speed, and so is the pace of launches
    bandwidth     is the device's: memory has a clock of its own
    watts         are its own while busy; idle_watts are the device's at all levels

To change the level takes no time, and between levels nothing is moved. Links of the device are
those of all its levels. Nothing here sets a frequency: such devices are for planning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.devices import (
    MOST_LEVELS,
    NAME,
    Device,
    Link,
    refuse_many_levels,
)
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import parse_quantity

# Clocks above the one that the figures are of (turbo), and below it, are within these factors.
_FASTEST, _SLOWEST = 10.0, 1e-3


@dataclass(frozen=True)
class FrequencyLevel:
    """A way of being clocked: `speed` times the clock of the device's figures, `watts` busy."""

    name: str
    speed: float
    watts: float


def parse_levels(device: Fields) -> tuple[FrequencyLevel, ...]:
    """The ``levels`` of a device's row; none if it has none.

    Raises
    ------
    FormatError
        If there are too many, a name is repeated, a speed is not of this world, or the device has
        watts or RPC besides.
    """
    if not device.has("levels"):
        return ()
    levels = device.rows("levels", _parse_level)
    if not levels or len({level.name for level in levels}) < len(levels):
        device.refuse("levels", "at least one level, each name once")
    if len(levels) > MOST_LEVELS:
        device.refuse("levels", f"at most {MOST_LEVELS} levels")
    for key in ("watts", "rpc", "level_of"):
        if device.has(key):
            device.refuse(key, "nothing, as the device has levels")
    return levels


def _parse_level(data: object, where: str) -> FrequencyLevel:
    row = Fields(data, where, ["name", "speed", "watts"])
    speed = row.quantity("speed", parse_quantity)
    if not _SLOWEST <= speed <= _FASTEST:
        row.refuse("speed", f"a factor from {_SLOWEST:g} to {_FASTEST:g}")
    name = row.name("name")
    if not NAME.fullmatch(name):
        row.refuse("name", "only letters, digits and _ . -")
    return FrequencyLevel(name, speed, row.quantity("watts", parse_quantity))


def expand_levels(device: Device, levels: Sequence[FrequencyLevel]) -> tuple[Device, ...]:
    """A device for each level; the device itself if there are none."""
    if not levels:
        return (device,)
    return tuple(
        replace(
            device,
            name=f"{device.name}.{level.name}",
            level_of=device.name,
            peak_flops=None if device.peak_flops is None else device.peak_flops * level.speed,
            launch=None if device.launch is None else device.launch / level.speed,
            watts=level.watts,
        )
        for level in levels
    )


def give_cores(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Levels of a device that names no cores get one that nobody else has."""
    taken = {(d.node, core) for d in devices for core in d.cores}
    given: dict[tuple[str, str], int] = {}
    found = []
    for device in devices:
        if device.level_of is not None and not device.cores:
            key = device.node, device.level_of
            if key not in given:
                least = 1 + max((c for node, c in taken if node == device.node), default=-1)
                given[key] = least
                taken.add((device.node, least))
            device = replace(device, cores=(given[key],))
        found.append(device)
    return tuple(found)


def expand_links(links: Iterable[Link], devices: Sequence[Device]) -> tuple[Link, ...]:
    """Links of a device to all its levels.

    Raises
    ------
    PlatformError
        If a device has more levels than links can be made between.
    """
    refuse_many_levels(devices)
    groups = _levels(devices)
    return tuple(copy for link in links for copy in _copies(link, groups))


def link_levels(links: Sequence[Link], devices: Sequence[Device]) -> tuple[Link, ...]:
    """The links, and between levels of one device where there is none one that takes no time."""
    known = {(link.src, link.dst) for link in links}
    pairs = (pair for names in _levels(devices).values() for pair in permutations(names, 2))
    return (*links, *(Link(*pair) for pair in pairs if pair not in known))


def _levels(devices: Iterable[Device]) -> dict[str, list[str]]:
    """The names of the levels of each device that has any."""
    groups: dict[str, list[str]] = {}
    for device in devices:
        if device.level_of is not None:
            groups.setdefault(device.level_of, []).append(device.name)
    return groups


def _copies(link: Link, groups: Mapping[str, Sequence[str]]) -> Iterator[Link]:
    ends = (groups.get(end, (end,)) for end in (link.src, link.dst))
    for src, dst in product(*ends):
        yield link if (src, dst) == (link.src, link.dst) else replace(link, src=src, dst=dst)


def refuse_levels(devices: Iterable[Device]) -> None:
    """Refuse frequency levels where something is to be measured or run.

    Raises
    ------
    PlatformError
        Naming the first.
    """
    for device in devices:
        if device.level_of is not None:
            raise PlatformError(
                f"device {quote(device.name)} is a frequency level of {quote(device.level_of)}: "
                "nothing here sets a frequency, so levels are for planning only; leave 'levels' "
                "out to measure or to run"
            )
