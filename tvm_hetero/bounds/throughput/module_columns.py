"""The columns of a chain of modules for throughput: every placement, what it loads and holds.

In steady state nothing waits for anything, so a plan is a placement, and all that counts is a sum:
the load of a device or exclusive link (rule 7), and the bytes that a device holds (rule 6: weights,
and every tensor made on or copied to it). A tensor that a module's first part makes is read in
that module alone (no tensor passes an articulation), so every tensor belongs to one module, and a
part to the module that it does not begin. Hence with one column of each module, their ends meeting,

    load(r)  = sum over modules of load(column, r)
    bytes(d) = sum over modules of bytes(column, d)

exactly, whatever the links: shared hops of a tensor, detours, exclusive links, colors.

A column that is nowhere better than another with the same ends is left out     -> `_useful`. Equal
modules share their columns                                                -> `throughput_chain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.core.module_choices import find_undominated, placements_of, size_of
from tvm_hetero.bounds.core.time_is_up import Late, check_late, never
from tvm_hetero.views.array_types import FloatArray, Int16Array, IntArray
from tvm_hetero.views.instance import Flow, Hop, Instance
from tvm_hetero.views.modularity import Module, Piece, canonical, modules_of, signature

# Placements of one module, and of all distinct ones, that are gone through.
MOST, MOST_TOGETHER = 200_000, 2_000_000


@dataclass(frozen=True)
class Columns:
    """Placements of one module, sorted by the devices of its ends.

    Attributes
    ----------
    code : as in `module_choices.Choices`.
    load : (n, resources), s.
    held : (n, limited), bytes.
    places : (n, parts), devices in canonical order.
    """

    code: IntArray
    load: FloatArray
    held: FloatArray
    places: Int16Array

    def __len__(self) -> int:
        return len(self.code)

    def take(self, rows: IntArray) -> Columns:
        """Some of the rows, in order."""
        return Columns(self.code[rows], self.load[rows], self.held[rows], self.places[rows])


@dataclass(frozen=True)
class ColumnChain:
    """The modules of an instance in order, with their columns.

    Attributes
    ----------
    parts : of each module, numbers of the instance in the order of `Columns.places`.
    tables : of each module; equal modules share one.
    capacity : bytes, of the devices whose memory binds.
    """

    instance: Instance
    parts: list[tuple[int, ...]]
    tables: list[Columns]
    capacity: FloatArray

    @property
    def distinct(self) -> list[Columns]:
        """Each table once."""
        return list({id(table): table for table in self.tables}.values())

    def placement(self, rows: Sequence[int]) -> list[int]:
        """The device of every part, where each module takes one of its columns."""
        placement = [0] * len(self.instance)
        for parts, table, row in zip(self.parts, self.tables, rows, strict=True):
            for v, d in zip(parts, table.places[row].tolist(), strict=True):
                placement[v] = d
        return placement


def listable(instance: Instance) -> bool:
    """Whether no module has too many placements to go through."""
    return all(size_of(instance, module) <= MOST for module in modules_of(instance))


def throughput_chain(instance: Instance, late: Late = never) -> ColumnChain | None:
    """The chain of an instance whose parts run whole; None where a module has too many columns.

    Raises
    ------
    TimeIsUp
        If it is `late` before the last module.
    """
    modules = modules_of(instance)
    if not modules or not listable(instance):
        return None
    limited = [d for d, binds in enumerate(instance.memory_binds) if binds]
    known: dict[object, Columns] = {}
    parts, tables, total, resources = [], [], 0, resources_of(instance)
    for module in modules:
        piece = Piece(instance, canonical(instance, module.parts))
        ends = (module.first is None, module.last is None)
        key = (signature(piece, ends), piece.weights, piece.unread, piece.devices)
        if key not in known:
            total += size_of(instance, module)
            if total > MOST_TOGETHER:
                return None
            known[key] = columns_of(instance, module, piece, limited, resources, late)
        parts.append(piece.parts)
        tables.append(known[key])
    capacity = np.array([float(instance.capacity[d] or 0) for d in limited])
    return ColumnChain(instance, parts, tables, capacity)


def columns_of(
    instance: Instance,
    module: Module,
    piece: Piece,
    limited: Sequence[int],
    resources: int,
    late: Late = never,
) -> Columns:
    """The columns of a module; `piece` are its parts in canonical order.

    Raises
    ------
    TimeIsUp
        If it is `late`.
    """
    check_late(late)
    places = placements_of(piece)
    load, held = loads_of(instance, piece, places, module.first is not None, resources, late)
    code = np.zeros(len(places), dtype=np.int64)
    if module.first is not None:
        code += places[:, 0].astype(np.int64) * len(instance.names)
    if module.last is not None:
        code += places[:, -1]
    found = Columns(code, load, held[:, list(limited)], places)
    found = found.take(np.flatnonzero(np.isfinite(load).all(axis=1)))
    return _useful(found.take(np.argsort(found.code, kind="stable")), late)


def loads_of(
    instance: Instance,
    piece: Piece,
    places: Int16Array,
    first: bool,
    resources: int,
    late: Late = never,
) -> tuple[FloatArray, FloatArray]:
    """Loads of all resources, s (inf where no path leads), and bytes on all devices.

    The part that comes `first`, if there is one, has been counted in the module before.

    Raises
    ------
    TimeIsUp
        If it is `late`.
    """
    k, every = len(instance.names), np.arange(len(places))
    load, held = np.zeros((len(places), resources)), np.zeros((len(places), k))
    for p in range(1 if first else 0, len(piece)):
        at, v = places[:, p], piece.parts[p]
        load[every, at] += np.array(piece.seconds[p])[at]
        held[every, at] += piece.weights[p] + instance.unread[v]
    for flow in piece.tensors:
        check_late(late)
        # Placements that need the tensor on the same devices are worked out once.
        needed = np.zeros(len(places), dtype=np.int64)
        for w in flow.readers:
            needed |= 1 << places[:, w].astype(np.int64)
        kinds, which = np.unique(needed * k + places[:, flow.maker], return_inverse=True)
        seconds, nbytes = np.zeros((len(kinds), resources)), np.zeros((len(kinds), k))
        for i, kind in enumerate(kinds.tolist()):
            _move(instance, flow, kind // k, kind % k, seconds[i], nbytes[i])
        load += seconds[which]
        held += nbytes[which]
    return load, held


def resources_of(instance: Instance) -> int:
    """How many resources there are: devices, and exclusive links that some path may take."""
    count = len(instance.names)
    if not instance.exclusive and not instance.teams:
        return count
    pairs = [(j, k) for j in range(count) for k in range(count) if j != k]
    for nbytes in sorted({flow.nbytes for flow in instance.tensors}):
        for j, k in pairs:
            for hop in instance.route(j, k, nbytes) or ():
                count = max(count, *(r + 1 for r in instance.resources(hop)), 0)
    return count


def _move(
    instance: Instance, flow: Flow, needed: int, home: int, load: FloatArray, held: FloatArray
) -> None:
    """Add what a tensor takes that is made at home and needed on a set of devices (bits)."""
    held[home] += flow.nbytes
    hops: dict[Hop, None] = {}
    for d in range(len(instance.names)):
        if d == home or not needed >> d & 1:
            continue
        route = instance.route(home, d, flow.nbytes)
        if route is None:
            load[:] = np.inf
            return
        hops.update(dict.fromkeys(route))
    for hop in hops:
        held[hop[1]] += flow.nbytes
        for r in instance.resources(hop):
            load[r] += instance.hop_seconds(hop, flow.nbytes)


def _useful(columns: Columns, late: Late) -> Columns:
    """Of columns with the same ends those that are nowhere worse than another; of equals one."""
    kept = []
    for code in np.unique(columns.code).tolist():
        own = np.flatnonzero(columns.code == code)
        taken = np.column_stack([columns.load[own], columns.held[own]])
        kept.append(own[find_undominated(taken.sum(axis=1), taken, late)])
    return columns.take(np.concatenate(kept)) if kept else columns
