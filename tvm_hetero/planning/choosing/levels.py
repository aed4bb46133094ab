"""Frequency levels of a machine as so many ways to run it: one of them is chosen for a replica.

A platform says a device's levels as devices that share its core. A machine that is rented has the
core once and runs it at one level, so each combination of levels is a machine by itself here, with
the name, price and number of the one that is offered: the program counts all of them together. What
a plan could do besides, run one task at a low level and the next at a high one, is the business of
`tvm_hetero.planning.power`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tvm_hetero.errors import UsageError
from tvm_hetero.planning.choosing.format import keep_devices, several_levels
from tvm_hetero.planning.choosing.request import MachineOffer

# Combinations of levels of one machine; each is planned for every variant and batch.
MOST_WAYS = 32


def at_levels(machine: MachineOffer) -> Iterator[MachineOffer]:
    """The machine at each combination of levels; itself where no device has several.

    Raises
    ------
    UsageError
        If there are more than `MOST_WAYS` of them.
    """
    levels = several_levels(machine.platform)
    if not levels:
        yield machine
        return
    count = 1
    for names in levels.values():
        count *= len(names)
    if count > MOST_WAYS:
        raise UsageError(
            f"machine {machine.name!r} has {count} combinations of frequency levels, at most "
            f"{MOST_WAYS} are tried; name some of them in 'devices'"
        )
    every = {name for names in levels.values() for name in names}
    plain = [name for name in machine.platform.names if name not in every]
    for chosen in product(*levels.values()):
        names = tuple(n for n in machine.platform.names if n in plain or n in chosen)
        platform = keep_devices(machine.platform, names, f"machine {machine.name!r}")
        yield replace(machine, platform=platform, level=", ".join(chosen))
