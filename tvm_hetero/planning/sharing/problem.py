"""Several models on one set of machines over a day: what is given, in whole numbers.

Notation, used throughout this folder:

    t       an hour of the day; after the last one comes the first again
    i       a model; it is asked for need[t][i] times a second
    j       a machine, of kind m(j); how many of a kind there are is given
    g       a mode of a kind: how a machine is shared while it is in it
    c[g,i]  requests of i that a machine in mode g answers a second, if it does nothing else;
            0: i may not live on it in this mode
    x[t,i,j]  whether i lives on j, its weights in memory
    s[t,i,j]  how many of the `PARTS` parts of its time j gives to i
    p(g,i)  the plan by which i runs in mode g of a kind: its batch, and what it needs of memory
    h(p)    the copy of i's weights that a plan runs on: plans that have them in the same places
            share one

A mode is either *alone*, where one model lives on the machine, or has a *quantum* q: nothing on the
machine computes for longer than q at once, and each model is rated with an SLO that is q shorter,
for what a request may have to wait until another model's batch is done. A longer quantum has larger
batches; models whose SLO is too short for it may not live there.

What has to hold, in every hour (the judge, `judge`, says it once more in its own words):

    a machine that is on is in one mode; models live on it only then, and only those of the mode
    one that gets time lives there; all parts together are at most `PARTS`
    all machines together answer what is needed: sum over j of c s >= PARTS need
    memory: copies that live there in this hour or the one before, together (a copy is loaded
        before its hour begins, while those that go are still asked), each with what its plan
        needs, of two plans the larger one

What is paid: each hour that a machine is on; each start of a machine; each load of a copy of a
model onto one. So another mode is free where the weights stay where they are, and costs a load
where its plan has them in other places. The day comes again and again, so that the first hour
follows the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PARTS = 1000
# Requests a second are counted in thousandths, money in millionths, memory in bytes.
RATE, MONEY = 1_000, 1_000_000
ALONE = "alone"


@dataclass(frozen=True)
class MachineMode:
    """How a machine is shared.

    Attributes
    ----------
    name : of a reader: ``alone``, ``5 ms``.
    carries : c[g,i] of every model, in parts of `RATE`.
    alone : whether only one model may live there.
    plans : p(g,i) of every model, by position in its row of `SharedKind.sizes`; empty: the first.
    """

    name: str
    carries: tuple[int, ...]
    alone: bool = False
    plans: tuple[int, ...] = ()

    def plan(self, i: int) -> int:
        """p(g,i)."""
        return self.plans[i] if self.plans else 0


@dataclass(frozen=True)
class SharedKind:
    """A kind of machine.

    Attributes
    ----------
    price : of an hour; start : of each start; loads : of loading each model; all in `MONEY`.
    rooms : memory of its devices, bytes; None: without end.
    sizes : what each plan of each model needs on each of the devices, bytes.
    copies : h(p) of each plan of each model; empty: all plans of a model run on one copy.
    """

    name: str
    available: int
    price: int
    modes: tuple[MachineMode, ...]
    start: int
    loads: tuple[int, ...]
    rooms: tuple[int | None, ...] = (None,)
    sizes: tuple[tuple[tuple[int, ...], ...], ...] = ()
    copies: tuple[tuple[int, ...], ...] = ()

    def copy(self, i: int, p: int) -> int:
        """h(p) of model i."""
        return self.copies[i][p] if self.copies else 0


@dataclass(frozen=True)
class SharingProblem:
    """The whole problem; `need[t][i]` in parts of `RATE`."""

    models: tuple[str, ...]
    kinds: tuple[SharedKind, ...]
    need: tuple[tuple[int, ...], ...]
    parts: int = PARTS

    @property
    def machines(self) -> tuple[int, ...]:
        """The kind of each machine that can be had."""
        return tuple(m for m, kind in enumerate(self.kinds) for _ in range(kind.available))

    def copies(self, hour: MachineHour) -> dict[int, int]:
        """The copy of its weights that each model has on a machine in an hour."""
        kind = self.kinds[self.machines[hour.machine]]
        mode = kind.modes[hour.mode]
        return {i: kind.copy(i, mode.plan(i)) for i in hour.parts}

    def machine_name(self, j: int) -> str:
        """``t4 2``: the second one of its kind."""
        every = self.machines
        return f"{self.kinds[every[j]].name} {1 + j - every.index(every[j])}"


@dataclass(frozen=True)
class MachineHour:
    """What a machine that is on does in an hour.

    `parts` has, for each model that lives there, how many parts of the time it gets (maybe none).
    """

    machine: int
    mode: int
    parts: dict[int, int]


# The machines that are on, of every hour, in the order of the machines.
DayPlan = tuple[tuple[MachineHour, ...], ...]


@dataclass(frozen=True)
class SharingPolicy:
    """What else is asked of a plan.

    Attributes
    ----------
    shared : whether several models may live on a machine; else each has its own ones.
    moving : whether what is on and who lives where may change with the hour.
    """

    shared: bool = True
    moving: bool = True


POLICIES = {
    "one machine a model, for the peak": SharingPolicy(shared=False, moving=False),
    "one machine a model, by the hour": SharingPolicy(shared=False),
    "shared, for the peak": SharingPolicy(moving=False),
    "shared, by the hour": SharingPolicy(),
}


def on(hour: Sequence[MachineHour]) -> set[int]:
    """The machines that are on in an hour."""
    return {each.machine for each in hour}
