"""A bound of throughput by modules where many devices are alike: no device can do it all.

With many devices a module has too many placements to list, and labels too many loads to keep
(`solvers.milp_split.lagrangian`). Of devices that can change places only one placement of each kind
is listed: the members of a kind appear in their order. Let a plan of value U be known, and w be
weights of the devices, equal for a kind, of sum 1. A better plan loads no device with more than U,
so

    along the chain of modules the device of the cut has *runs*: modules that begin and end on it
    what a run loads its device with, the module where it is entered and that where it is left
    included, is at most U
    T is no less than the mean load, which every column adds to: cost(column) = sum of w load

and T is no less than the least cost of the chains that keep to such runs. Labels (kind of the cut's
device, load of the run) have a dynamic program; a run that ends may be followed by one on another
device of its kind, whatever that has done before                                  -> `_cheapest`

    stays  (c, r)   ->  (c, r + load of the device)
    leaves (c, r)   ->  (e, load of the next device)     if r + load of the device <= U

It is `chain` for graphs that are chains of modules and no chains of tasks. The weights are
improved by subgradients: the loads of the cheapest way say which to raise. Any weights give a
proof: the optimum is at least min(U, least cost). Loads are rounded down to whole units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.core.module_choices import find_undominated
from tvm_hetero.bounds.throughput.module_columns import loads_of, resources_of
from tvm_hetero.views.array_types import AnyArray, BoolArray, FloatArray, Int16Array, IntArray
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import Piece, canonical, modules_of, signature
from tvm_hetero.views.symmetry import find_symmetry

_ROUNDING = 1 - 1e-10
# The limit in units: sums of loads that are rounded down are exact, and 1,000 lose 1e-9.
_UNITS = 1e12
# Placements of one module that are listed: 116,000 for nine parts on a host and eight devices that
# are alike, which take some 4 s for ten such modules.
MOST = 150_000
# Rounds of the subgradient method, and their first step.
_ROUNDS, _FIRST_STEP = 12, 0.05
# Labels above which a round is given up.
_MOST_LABELS = 20_000


@dataclass(frozen=True)
class DeviceKinds:
    """Devices that can change places: the members of each kind, the kind of each device."""

    members: tuple[tuple[int, ...], ...]
    of: IntArray

    @property
    def counts(self) -> FloatArray:
        """How many devices each has."""
        return np.array([float(len(own)) for own in self.members])


@dataclass(frozen=True)
class Runs:
    """Placements of one module, one for all that differ by devices of a kind.

    Attributes
    ----------
    first, last : kinds of the devices at the ends (0 where there is no end).
    stays : whether they are one device.
    here, there : what loads the first device, and the last, units.
    load : (n, kinds), what loads all devices of each kind, units.
    """

    first: IntArray
    last: IntArray
    stays: BoolArray
    here: FloatArray
    there: FloatArray
    load: FloatArray

    def take(self, rows: IntArray) -> Runs:
        """Some of the rows."""
        own: list[AnyArray] = [self.first, self.last, self.stays, self.here, self.there, self.load]
        return Runs(*(column[rows] for column in own))


def run_bound(instance: Instance, value: float, weights: FloatArray, most: int = MOST) -> float:
    """The bound at the head of this file, s; 0 where it has nothing to say.

    Parameters
    ----------
    value : of a plan that is known, s; or anything that is no less than the optimum.
    weights : of the devices, to begin from (none is 0 afterwards).
    most : placements of one module that are listed; where there are more, nothing is said.
    """
    if not 0 < value < math.inf or instance.problem.batch > 1:
        return 0.0
    modules = modules_of(instance)
    kinds = kinds_of(instance)
    if len(modules) < 3 or len(kinds.members) == len(instance.names):
        return 0.0
    tables: list[Runs] = []
    known: dict[object, Runs] = {}
    for module in modules:
        piece = Piece(instance, canonical(instance, module.parts))
        ends = (module.first is None, module.last is None)
        key = (signature(piece, ends), piece.devices)
        if key not in known:
            places = placements_of_kinds(piece, kinds, most)
            if places is None:
                return 0.0
            known[key] = _runs(instance, piece, places, ends, kinds, _UNITS / value)
        tables.append(known[key])
    counts = kinds.counts
    weight = np.array([float(weights[own[0]]) for own in kinds.members])
    weight = np.maximum(weight, 1e-3 / counts.sum())
    best = 0.0
    for i in range(_ROUNDS):
        weight /= float(weight @ counts)
        bound, loads = _cheapest(tables, weight)
        best = max(best, min(_UNITS, bound))
        if bound >= _UNITS or loads is None:
            break
        step = _FIRST_STEP / (1 + i / 2)
        weight = weight * np.exp(step * np.clip(loads / counts / _UNITS - 1, -1, 1))
    return best / _UNITS * value * _ROUNDING


def kinds_of(instance: Instance) -> DeviceKinds:
    """The kinds of an instance's devices."""
    twins = find_symmetry(instance.problem).twins
    grouped = {d for own in twins for d in own}
    alone = ((d,) for d in range(len(instance.names)) if d not in grouped)
    members = tuple(sorted([*twins, *alone]))
    of = np.zeros(len(instance.names), dtype=np.int64)
    for k, own in enumerate(members):
        of[list(own)] = k
    return DeviceKinds(members, of)


def placements_of_kinds(piece: Piece, kinds: DeviceKinds, most: int) -> Int16Array | None:
    """(n, parts): placements in which a kind's devices appear in order; None above `most`."""
    places = np.zeros((1, len(piece)), dtype=np.int16)
    used = np.zeros((1, len(kinds.members)), dtype=np.int16)
    for group in piece.groups:
        found, after = [], []
        for k, members in enumerate(kinds.members):
            for i, d in enumerate(members):
                if d not in piece.devices[group[0]]:
                    continue
                rows = np.flatnonzero(used[:, k] >= i)
                new, own = places[rows], used[rows]
                new[:, list(group)] = d
                own[:, k] = np.maximum(own[:, k], i + 1)
                found.append(new)
                after.append(own)
        places, used = np.concatenate(found), np.concatenate(after)
        if len(places) > most:
            return None
    return places


def _runs(
    instance: Instance,
    piece: Piece,
    places: Int16Array,
    ends: tuple[bool, bool],
    kinds: DeviceKinds,
    unit: float,
) -> Runs:
    """The placements with their loads in units."""
    load, _ = loads_of(instance, piece, places, not ends[0], resources_of(instance))
    good = np.isfinite(load).all(axis=1)
    places, load = places[good], np.floor(load[good, : len(instance.names)] * unit)
    every, none = np.arange(len(places)), np.zeros(len(places), dtype=np.int64)
    first, last = places[:, 0], places[:, -1]
    own = np.zeros((len(places), len(kinds.members)))
    for k, members in enumerate(kinds.members):
        own[:, k] = load[:, list(members)].sum(axis=1)
    return Runs(
        none if ends[0] else kinds.of[first],
        none if ends[1] else kinds.of[last],
        np.asarray((first == last) & (not ends[0]) & (not ends[1])),
        none.astype(float) if ends[0] else load[every, first],
        none.astype(float) if ends[1] else load[every, last],
        own,
    )


def _cheapest(tables: Sequence[Runs], weight: FloatArray) -> tuple[float, FloatArray | None]:
    """The least cost in units, and the loads of that way by kind; inf if there is none.

    0 if there are too many labels.
    """
    useful = _useful(tables, weight)
    kinds = len(weight)
    device, run, cost = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1)
    past: list[tuple[IntArray, IntArray, Runs]] = []
    for table, rest in useful:
        spent = table.load @ weight
        found = []
        for k in range(kinds):
            own, rows = np.flatnonzero(device == k), np.flatnonzero(table.first == k)
            if not len(own) or not len(rows):
                continue
            total = cost[own][:, None] + spent[rows] + rest[table.last[rows]]
            loaded = run[own][:, None] + table.here[rows]
            a, b = np.nonzero((total < _UNITS) & (loaded <= _UNITS))
            a, b = own[a], rows[b]
            after = np.where(table.stays[b], run[a] + table.here[b], table.there[b])
            good = np.flatnonzero(after <= _UNITS)
            found.append((a[good], b[good], after[good]))
        if not any(len(a) for a, _, _ in found):
            return math.inf, None
        a, b, after = (np.concatenate(column) for column in zip(*found, strict=True))
        total = cost[a] + spent[b]
        kept = []
        for k in range(kinds):
            own = np.flatnonzero(table.last[b] == k)
            own = own[np.lexsort((total[own], after[own]))]
            before = np.append(np.inf, np.minimum.accumulate(total[own])[:-1])
            kept.append(own[total[own] < before])
        rows = np.concatenate(kept)
        past.append((a[rows], b[rows], table))
        device, run, cost = table.last[b[rows]], after[rows], total[rows]
        if len(rows) > _MOST_LABELS:
            return 0.0, None
    at = int(cost.argmin())
    least, loads = float(cost[at]), np.zeros(kinds)
    for back, row, table in reversed(past):
        loads += table.load[row[at]]
        at = int(back[at])
    return least, loads


def _useful(tables: Sequence[Runs], weight: FloatArray) -> list[tuple[Runs, FloatArray]]:
    """Of each module the placements on chains that may be better, and what comes after it."""
    kinds = len(weight)
    best: dict[int, tuple[Runs, FloatArray]] = {}
    for table in tables:
        if id(table) not in best:
            spent = table.load @ weight
            code = (table.first * kinds + table.last) * 2 + table.stays
            kept = []
            for ends in np.unique(code).tolist():
                own = np.flatnonzero(code == ends)
                taken = np.column_stack([table.here[own], table.there[own]])
                kept.append(own[find_undominated(spent[own], taken)])
            short = table.take(np.concatenate(kept))
            least = np.full((kinds, kinds), np.inf)
            np.minimum.at(least, (short.first, short.last), short.load @ weight)
            best[id(table)] = short, least
    rest = [np.zeros(kinds)]
    for table in reversed(tables):
        rest.append((best[id(table)][1] + rest[-1]).min(axis=1))
    rest.reverse()
    return [(best[id(table)][0], rest[m + 1]) for m, table in enumerate(tables)]
