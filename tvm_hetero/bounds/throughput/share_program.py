"""Lower bound of the busiest device: a linear program over shares of kinds of devices.

Notation: B elements a batch; devices of one kind (equal figures, `views.ideals.Kind`) are summed
up: kind c has m(c) devices. Y(g, c) is the share of group g (tasks of one color; mostly one task)
that runs on devices of kind c, IN(t, c) and OUT(t, c) are the shares of tensor t that arrive at
them and leave them, arrive(t, c) and leave(t, c) the least seconds that keeps such a device busy,
rate(v, c) the least seconds of all elements of v at the best batch size of its table.

Shares: summing the loads, all at most T, of the devices of a kind gives          -> `share_bound`

    minimise T  subject to
      sum over c of Y(g, c)                 = 1
      IN(t, c)  >= Y(reader, c) - Y(maker, c)            for every reader
      OUT(t, c) >= Y(maker, c) - Y(reader, c)            for every reader
      sum of rate Y + arrive IN + leave OUT <= m(c) T    for every kind c
      sum of hop IN                         <= l(c) T    l(c) exclusive links lead to kind c
      sum of bytes Y + bytes IN             <= m(c) memory(c)

For equal devices nothing is lost by the sums: the mean over all ways to exchange them is as good
and treats them alike. So the size grows with the kinds, not with the devices: 2,000 tasks on 8
devices of 3 kinds take a second or two instead of minutes. With one reader OUT = IN + Y(maker, c)
- Y(reader, c), which saves a third of the variables.

A share of a hub, a group that reads from hundreds of others, everywhere makes its copies vanish.
Whole groups are somewhere: the least value over all kinds where the hub can be is a bound, too,
and was up to a tenth better (`hub_bound`). Values are proven by the duals, whatever their
rounding (Neumaier and Shcherbina 2004, doi:10.1007/s10107-003-0433-3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.ideals import Kind, kinds_of, least_hops
from tvm_hetero.views.instance import Instance

_ROUNDING = 1 - 1e-12
# Rows for copies that are solved within a second or two, and within ten.
QUICK_ROWS = 10_000
ALL_ROWS = 60_000
# Copies of a hub, in parts of the bound, from which it is worth while to ask where it is.
_HUB = 0.02
# Copies count for at most this many times the work of a device: a copy and a task's work share a
# number, and 15 digits of a copy of 1e12 s leave none for 1e-3 s of work. Less is still a bound.
_LONGEST = 1e4


@dataclass
class _ShareProgram:
    """min T; rows are (row, column, factor), `right` their right-hand sides, T is column 0."""

    variables: int = 1
    count: int = 0
    rows: list[tuple[int, int, float]] = field(default_factory=list)
    right: list[float] = field(default_factory=list)
    shares: list[list[int]] = field(default_factory=list)

    def variable(self) -> int:
        """A new variable in [0, 1]."""
        self.variables += 1
        return self.variables - 1

    def row(self, entries: Sequence[tuple[int, float]], right: float = 0.0) -> int:
        """A new row: sum of entries <= right."""
        self.rows += [(self.count, column, factor) for column, factor in entries]
        self.right.append(right)
        self.count += 1
        return self.count - 1

    def add(self, row: int, column: int, factor: float) -> None:
        """One more entry of a row."""
        self.rows.append((row, column, factor))


@dataclass(frozen=True)
class BatchShares:
    """What the program says.

    Attributes
    ----------
    value : what its duals prove, s per batch; 0 if the solver gives up.
    weights : of the devices, at least 0: the multipliers of their loads.
    kinds : of devices.
    shares : (groups, kinds), the part of each group; empty if the solver gives up.
    """

    value: float
    weights: FloatArray
    kinds: tuple[Kind, ...]
    shares: FloatArray


def share_bound(instance: Instance, rows: int = QUICK_ROWS) -> tuple[float, FloatArray]:
    """Value and weights of `share_program`."""
    found = share_program(instance, rows)
    return found.value, found.weights


def hub_bound(instance: Instance, value: float, rows: int = QUICK_ROWS) -> float:
    """The bound when the group with the most to copy has to be somewhere as a whole, s.

    Parameters
    ----------
    value : of `share_program`.

    Returns
    -------
    The least value over all kinds of devices where the hub could be; 0 if no group's copies
    reach `_HUB` of `value`, if batches are divided, or if the rows would be too many.
    """
    if instance.problem.batch > 1 or value <= 0:
        return 0.0
    arrive, leave = least_hops(instance)
    kinds = kinds_of(instance, arrive, leave)
    readers = sum(len(flow.readers) for flow in instance.tensors)
    if 2 * readers * (len(kinds) + 1) > rows:
        return 0.0
    hub, copies = 0, 0.0
    for g, group in enumerate(instance.groups):
        moved = sorted({t for v in group for t in instance.inputs[v]})
        seconds = math.fsum(float(arrive[t, list(instance.devices[group[0]])].min()) for t in moved)
        if seconds > copies:
            hub, copies = g, seconds
    if copies < _HUB * value:
        return 0.0
    least = math.inf
    for kind in kinds:
        if kind.devices[0] in instance.devices[instance.groups[hub][0]]:
            pinned = share_program(instance, rows, (hub, kind.devices[0])).value
            least = min(least, pinned)
            if least <= value:
                return 0.0
    return least if least < math.inf else 0.0


def share_program(
    instance: Instance, rows: int = QUICK_ROWS, pinned: tuple[int, int] | None = None
) -> BatchShares:
    """The linear program at the head of this file.

    Parameters
    ----------
    rows : copies are left out of programs with more rows than this for them.
    pinned : a group and the device where it is as a whole; the program says the same for every
        device of the kind.
    """
    arrive, leave = least_hops(instance)
    kinds: Sequence[Kind] = kinds_of(instance, arrive, leave)
    split: set[int] = set()
    if pinned is not None:
        kinds, split = _split(kinds, pinned[1])
    rate = rates(instance)
    scale = float(rate[np.isfinite(rate)].max(initial=0.0))
    weights = np.zeros(len(instance.names))
    none = np.zeros((0, len(kinds)))
    if scale <= 0:
        return BatchShares(0.0, weights, tuple(kinds), none)
    longest = _LONGEST * (math.fsum(rate.min(axis=1).tolist()) / len(rate[0]) or scale)
    arrive, leave = np.minimum(arrive, longest), np.minimum(leave, longest)
    program = _ShareProgram()
    loads = [program.row([(0, -float(len(kind.devices)))]) for kind in kinds]
    # Devices of a kind may differ in how many links lead to them.
    links = [
        -1 if c in split else _link_row(program, instance, kind) for c, kind in enumerate(kinds)
    ]
    room = [_memory_row(program, kind) for kind in kinds]
    if pinned is not None:
        elsewhere = [d for d in range(len(instance.names)) if d != pinned[1]]
        rate[np.ix_(instance.groups[pinned[0]], elsewhere)] = np.inf
    share = _add_shares(program, instance, kinds, rate / scale, loads, room)
    readers = sum(len(flow.readers) for flow in instance.tensors)
    if 2 * readers * len(kinds) <= rows:
        for c, kind in enumerate(kinds):
            d = kind.devices[0]
            over = _link_seconds(instance, d) if links[c] >= 0 else {}
            for t, flow in enumerate(instance.tensors):
                costs = (arrive[t, d] / scale, leave[t, d] / scale)
                link = min(longest, over.get(flow.nbytes, 0.0)) / scale
                full = flow.nbytes / (kind.capacity or 1) if room[c] >= 0 else 0.0
                moved = (costs, (link, links[c]), (full, room[c]))
                _add_moves(program, instance, share, t, c, loads[c], moved)
    value, duals, point = _solve(program)
    for c, kind in enumerate(kinds):
        weights[list(kind.devices)] = max(0.0, duals[loads[c]]) if len(duals) else 0.0
    if len(point):
        places = np.array([share[group[0]] for group in instance.groups])
        none = np.where(places >= 0, point[places], 0.0)
    return BatchShares(value * scale * _ROUNDING, weights, tuple(kinds), none)


def _split(kinds: Sequence[Kind], device: int) -> tuple[list[Kind], set[int]]:
    """Kinds with one device on its own, and the positions of the kinds that this made."""
    found: list[Kind] = []
    made: set[int] = set()
    for kind in kinds:
        if device not in kind.devices:
            found.append(kind)
            continue
        rest = tuple(d for d in kind.devices if d != device)
        for devices in filter(None, ((device,), rest)):
            made.add(len(found))
            found.append(replace(kind, devices=devices))
    return found, made


def rates(instance: Instance) -> FloatArray:
    """Least seconds of all elements of every part on every device; inf where it cannot run."""
    problem = instance.problem
    if problem.batch == 1:
        return np.array(instance.seconds, dtype=np.float64)
    table = np.full((len(instance), len(instance.names)), np.inf)
    # By object, which may be the row of costs, or the cost, of many; the problem keeps them.
    rows: dict[tuple[int, int, tuple[int, ...]], int] = {}
    known: dict[tuple[int, int], float] = {}
    for v, task in enumerate(instance.tasks):
        count = len(instance.elements[v])
        row = problem.costs[task]
        like = rows.setdefault((id(row), count, instance.devices[v]), v)
        if like < v:
            table[v] = table[like]
            continue
        for d in instance.devices[v]:
            cost = row[instance.names[d]]
            key = id(cost), count
            if key not in known:
                sizes = {1, count, *(n for n, _ in cost.points if n < count)}
                known[key] = count * min(cost.seconds(n) / n for n in sizes)
            table[v, d] = known[key]
    return table


def _link_row(program: _ShareProgram, instance: Instance, kind: Kind) -> int:
    """The row of the exclusive links into a kind; -1 if other ways lead there too."""
    count = 0
    for d in kind.devices:
        for other, name in enumerate(instance.names):
            link = instance.problem.platform.link(name, instance.names[d]) if other != d else None
            if link is not None and not link.exclusive:
                return -1
            count += link is not None
    return program.row([(0, -float(count))]) if count else -1


def _link_seconds(instance: Instance, device: int) -> dict[int, float]:
    """For every size of a tensor the least time over a link into a device, s."""
    name, platform = instance.names[device], instance.problem.platform
    every = (platform.link(other, name) for other in instance.names if other != name)
    links = [link for link in every if link is not None]
    sizes = sorted({flow.nbytes for flow in instance.tensors})
    return {nbytes: min(link.seconds(nbytes) for link in links) for nbytes in sizes}


def _memory_row(program: _ShareProgram, kind: Kind) -> int:
    """The row of a kind's memory, as a part of one device's; -1 without a limit."""
    if not kind.capacity:
        return -1
    return program.row([], float(len(kind.devices)))


def _add_shares(
    program: _ShareProgram,
    instance: Instance,
    kinds: Sequence[Kind],
    rate: FloatArray,
    loads: Sequence[int],
    room: Sequence[int],
) -> list[list[int]]:
    """One share a group and kind; the variable of every (part, kind), -1 for always 0."""
    place = [[-1] * len(kinds) for _ in range(len(instance))]
    for group in instance.groups:
        row = []
        for c, kind in enumerate(kinds):
            if not np.isfinite(rate[list(group), kind.devices[0]]).all():
                continue
            share = program.variable()
            row.append(share)
            for v in group:
                place[v][c] = share
            work = math.fsum(rate[v, kind.devices[0]] for v in group)
            program.add(loads[c], share, work)
            if room[c] >= 0:
                held = sum(_held(instance, v) for v in group)
                program.add(room[c], share, held / (kind.capacity or 1))
        program.shares.append(row)
    return place


def _held(instance: Instance, v: int) -> int:
    """Bytes that a part keeps on its device in steady state."""
    made = sum(instance.tensors[t].nbytes for t in instance.outputs[v])
    return instance.weights[v] + instance.unread[v] + made


def _add_moves(
    program: _ShareProgram,
    instance: Instance,
    share: Sequence[Sequence[int]],
    t: int,
    c: int,
    load: int,
    moved: tuple[tuple[float, float], tuple[float, int], tuple[float, int]],
) -> None:
    """What of a tensor arrives at and leaves the devices of a kind."""
    (arrive, leave), *others = moved
    flow = instance.tensors[t]
    made = share[flow.maker][c]
    read = [share[w][c] for w in flow.readers if share[w][c] != made or made < 0]
    arriving = [y for y in read if y >= 0]
    others = [(factor, row) for factor, row in others if row >= 0 and factor > 0]
    if not read or (arrive <= 0 and leave <= 0 and not others):
        return
    alone = len(read) == 1 and made >= 0
    inward = program.variable() if arriving else -1
    if arriving:
        program.add(load, inward, arrive + leave if alone else arrive)
        for factor, row in others:
            program.add(row, inward, factor)
        for y in arriving:
            program.row([(y, 1.0), (inward, -1.0), *([(made, -1.0)] if made >= 0 else [])])
    if alone:
        # OUT = IN + Y(maker) - Y(reader); without a reader here IN is 0.
        program.add(load, made, leave)
        if arriving:
            program.add(load, arriving[0], -leave)
    elif made >= 0 and leave > 0:
        outward = program.variable()
        program.add(load, outward, leave)
        for y in read:
            program.row([(made, 1.0), (outward, -1.0), *([(y, -1.0)] if y >= 0 else [])])


def _solve(program: _ShareProgram) -> tuple[float, FloatArray, FloatArray]:
    """A value that the duals prove, the multipliers of the rows (at least 0), and the point."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    n = program.variables
    i, j, a = (np.array(column) for column in zip(*program.rows, strict=True))
    upper = csr_array((a, (i, j)), shape=(program.count, n))
    ones = [(g, y) for g, row in enumerate(program.shares) for y in row]
    g, y = (np.array(column) for column in zip(*ones, strict=True))
    exact = csr_array((np.ones(len(ones)), (g, y)), shape=(len(program.shares), n))
    cost = np.zeros(n)
    cost[0] = 1.0
    box = np.ones(n)
    box[0] = np.inf
    right = np.array(program.right)
    result = linprog(
        cost,
        A_ub=upper,
        b_ub=right,
        A_eq=exact,
        b_eq=np.ones(len(program.shares)),
        bounds=np.column_stack([np.zeros(n), box]),
        method="highs-ipm" if n > 2_000 else "highs",
    )
    if result.status != 0:
        return 0.0, np.zeros(0), np.zeros(0)
    value, duals = _safe(upper, exact, right, -result.ineqlin.marginals, result.eqlin.marginals)
    return value, duals, result.x


def _safe(
    upper: Any, exact: Any, right: FloatArray, below: FloatArray, equal: FloatArray
) -> tuple[float, FloatArray]:
    """The bound that multipliers prove: scaled so that T, which has no limit, costs nothing."""
    below = np.maximum(0.0, below)
    held = -float((upper.T @ below)[0])
    factor = 1.0 / held if held > 1.0 else 1.0
    below, equal = below * factor, equal * factor
    reduced = upper.T @ below - exact.T @ equal
    slack = np.minimum(0.0, reduced[1:])
    value = math.fsum(equal) + math.fsum(slack) - math.fsum(below * right)
    return max(0.0, value), below
