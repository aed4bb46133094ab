"""All placements of one small module, with the time and the memory that each takes at least.

A module (`tvm_hetero.views.modularity`) lies between two articulations. For one element, and for a
placement of its parts that puts the first on i and the last on j:

    seconds   a bound of the time from the end of the first to the end of the last: longest path
              with copies, and for each device its work with the least before and after it
    held[d]   bytes on device d that are always there: weights. The first part's are counted in the
              module before
    busy[d]   the most bytes that some part on d finds there besides while it runs: what it reads
              and writes, what was made on d before it and is read on d after it, and what it and
              those before it in the module make that no task reads (that stays until the end, but
              is not there before: what later parts make does not count)

Only devices d whose memory binds are looked at. What takes no time needs nothing but weights
(lives are half open, rule 6), nor does what is shorter than a schedule's tolerance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.core.time_is_up import Late, check_late, never
from tvm_hetero.views.array_types import AnyArray, BoolArray, FloatArray, Int16Array, IntArray
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import Module, Piece, canonical, signature

# Rows that are compared at once.
_BLOCK = 500


@dataclass(frozen=True)
class Choices:
    """Placements of a module, sorted by the devices of its ends.

    Attributes
    ----------
    devices : how many the platform has.
    code : first's device times the number of devices, plus last's; 0 for an end that is not there.
    seconds, held, busy : see the head of this file; (n,), (n, limited), (n, limited).
    places : (n, parts), devices in canonical order.
    """

    devices: int
    code: IntArray
    seconds: FloatArray
    held: FloatArray
    busy: FloatArray
    places: Int16Array

    def __len__(self) -> int:
        return len(self.code)

    def take(self, rows: IntArray | BoolArray) -> Choices:
        """Some of the rows (indices or a mask), in order."""
        own: list[AnyArray] = [self.code, self.seconds, self.held, self.busy, self.places]
        return Choices(self.devices, *(column[rows] for column in own))


def size_of(instance: Instance, module: Module) -> int:
    """How many placements a module has."""
    inside = set(module.parts)
    groups = {instance.group_of[v]: v for v in module.parts if v in inside}
    return math.prod(len(instance.devices[v]) for v in groups.values())


def key_of(instance: Instance, module: Module) -> tuple[Piece, object]:
    """The parts of a module as a piece, and what modules share whose choices are equal."""
    piece = Piece(instance, canonical(instance, module.parts))
    ends = (module.first is None, module.last is None)
    moved = tuple(_moved(instance, v) for v in piece.parts)
    own = (piece.weights, piece.unread, piece.devices, moved)
    return piece, (signature(piece, ends), own)


def _moved(instance: Instance, v: int) -> int:
    """Bytes that a part reads and writes."""
    return sum(instance.tensors[t].nbytes for t in (*instance.inputs[v], *instance.outputs[v]))


def choices_of(
    instance: Instance, module: Module, piece: Piece, limited: list[int], blink: float
) -> Choices:
    """Every placement of a module of an instance whose batch is one element.

    `piece` are its parts (see `key_of`); `blink` is the longest time that may count as none, s.
    """
    places = placements_of(piece)
    first, last = module.first is not None, module.last is not None
    run = _run_times(piece, places, first)
    seconds = _times(piece, places, run, first)
    held, busy = _memory(instance, piece, places, run, limited, blink, first)
    code = np.zeros(len(places), dtype=np.int64)
    if first:
        code += places[:, 0].astype(np.int64) * len(instance.names)
    if last:
        code += places[:, -1]
    found = Choices(len(instance.names), code, seconds, held, busy, places)
    found = found.take(np.isfinite(seconds))
    return found.take(np.argsort(found.code, kind="stable"))


def placements_of(piece: Piece) -> Int16Array:
    """(n, parts): one device for every group, in all ways."""
    rows = [np.array(piece.devices[group[0]], dtype=np.int16) for group in piece.groups]
    grid = np.stack(np.meshgrid(*rows, indexing="ij"), axis=-1).reshape(-1, len(rows))
    places: Int16Array = grid[:, [piece.group_of[p] for p in range(len(piece))]]
    return places


def _run_times(piece: Piece, places: Int16Array, first: bool) -> FloatArray:
    """(n, parts): how long every part runs, s; the first one has run already."""
    run: FloatArray = np.stack(
        [np.array(piece.seconds[p])[places[:, p]] for p in range(len(piece))], axis=1
    )
    if first:
        run[:, 0] = 0.0
    return run


def _times(piece: Piece, places: Int16Array, run: FloatArray, first: bool) -> FloatArray:
    """The bound of every placement's time, s."""
    n = len(piece)
    copies = {size: piece.copies(size) for size in {flow.nbytes for flow in piece.tensors}}
    end, tail = np.zeros(places.shape), np.zeros(places.shape)
    for p in range(n):
        at = np.zeros(len(places))
        for t in piece.inputs[p]:
            flow = piece.tensors[t]
            moved = copies[flow.nbytes][places[:, flow.maker], places[:, p]]
            at = np.maximum(at, end[:, flow.maker] + moved)
        end[:, p] = at + run[:, p]
    for p in reversed(range(n)):
        for t in piece.outputs[p]:
            flow = piece.tensors[t]
            for w in flow.readers:
                moved = copies[flow.nbytes][places[:, p], places[:, w]]
                tail[:, p] = np.maximum(tail[:, p], moved + run[:, w] + tail[:, w])
    best: FloatArray = (end + tail).max(axis=1)
    own = slice(1, n) if first else slice(0, n)
    begin = (end - run)[:, own]
    for d in sorted({d for row in piece.devices for d in row}):
        there = places[:, own] == d
        work = (run[:, own] * there).sum(axis=1)
        before = np.where(there, begin, math.inf).min(axis=1, initial=math.inf)
        after = np.where(there, tail[:, own], math.inf).min(axis=1, initial=math.inf)
        total = np.where(there.any(axis=1), before + work + after, 0.0)
        best = np.maximum(best, total)
    return best


def _memory(
    instance: Instance,
    piece: Piece,
    places: Int16Array,
    run: FloatArray,
    limited: list[int],
    blink: float,
    first: bool,
) -> tuple[FloatArray, FloatArray]:
    held = np.zeros((len(places), len(limited)))
    busy = np.zeros((len(places), len(limited)))
    follows = _follows(piece)
    passing = _passing(piece, follows)
    for p in range(1 if first else 0, len(piece)):
        v = piece.parts[p]
        need = np.full(len(places), float(_moved(instance, v) + instance.unread[v]))
        for u in np.flatnonzero(follows[:, p]).tolist():
            need += float(instance.unread[piece.parts[u]]) * (places[:, u] == places[:, p])
        for nbytes, u, after in passing[p]:
            stays = (places[:, [u]] == places[:, after]).any(axis=1)
            need += nbytes * (stays & (places[:, u] == places[:, p]))
        lasts = run[:, p] > blink
        for i, d in enumerate(limited):
            there = places[:, p] == d
            held[:, i] += there * float(instance.weights[v])
            np.maximum(busy[:, i], need * (there & lasts), out=busy[:, i])
    return held, busy


def _follows(piece: Piece) -> BoolArray:
    """(n, n): whether the second part can only run when the first has ended."""
    n = len(piece)
    follows = np.zeros((n, n), dtype=np.bool_)
    for p in reversed(range(n)):
        for t in piece.outputs[p]:
            for w in piece.tensors[t].readers:
                follows[p, w] = True
                follows[p] |= follows[w]
    return follows


def _passing(piece: Piece, follows: BoolArray) -> list[list[tuple[int, int, list[int]]]]:
    """For every part the tensors made before it and read after it: bytes, maker, such readers."""
    n = len(piece)
    found: list[list[tuple[int, int, list[int]]]] = [[] for _ in range(n)]
    for flow in piece.tensors:
        for p in range(n):
            after = [w for w in flow.readers if follows[p, w]]
            if follows[flow.maker, p] and after and p not in flow.readers:
                found[p].append((flow.nbytes, flow.maker, after))
    return found


def find_undominated(seconds: FloatArray, bytes_taken: FloatArray, late: Late = never) -> IntArray:
    """The rows that no other beats or equals in time and all bytes, by rising time.

    Raises
    ------
    TimeIsUp
        If it is `late`: of 200,000 rows that none beats each is held against all.
    """
    order = np.lexsort((*bytes_taken.T[::-1], seconds))
    taken = bytes_taken[order]
    kept = np.zeros(0, dtype=np.int64)
    for begin in range(0, len(order), _BLOCK):
        check_late(late)
        block = np.arange(begin, min(begin + _BLOCK, len(order)))
        # Sorted by time: only what comes before can be better; of equals the first is kept.
        block = block[~_covered(taken[kept], taken[block])]
        own = _covers(taken[block], taken[block])
        own &= np.tri(len(block), k=-1, dtype=bool).T
        kept = np.append(kept, block[~own.any(axis=0)])
    rows: IntArray = order[kept]
    return rows


def _covers(one: FloatArray, other: FloatArray) -> BoolArray:
    """(one, other): whether a row takes no more of anything than another."""
    result = np.ones((len(one), len(other)), dtype=bool)
    for i in range(one.shape[1]):
        result &= one[:, i][:, None] <= other[:, i][None, :]
    return result


def _covered(one: FloatArray, other: FloatArray) -> BoolArray:
    result: BoolArray = np.asarray(_covers(one, other).any(axis=0))
    return result
