"""Critical paths, in milliseconds: with the best device each, with copies, and by modules.

*Best devices* (part of DiviML's bound): the longest path where each task takes its least time on
any device and copies are free                                                   -> `fastest_path`

*Device-aware.* With p(v, d) = least[v, d] (`figures`) and c the time of one element's copy

    head(v, d) = p(v, d) + max over inputs (u, v) of min over k of head(u, k) + c(k, d)
    tail(v, d) = max over outputs (v, w) of min over k of c(d, k) + p(w, k) + tail(w, k)

for v on d. Devices are never busy, and a maker may be somewhere else for each of its readers. In
every schedule v on d ends no earlier than head(v, d) and no less than tail(v, d) follows, so
max over v, min over d of head + tail bounds the makespan                      -> `critical_path`

*By modules* (one element): everything precedes or follows an articulation a (`modules`), so a
schedule is no shorter than the best chain of times M(i, j) from the end of a on i to the end of
the next one b on j. Heads that begin at a on i, and tails that end at b on j, bound M(i, j) for
all modules at once: with one more index for i or j                           -> `module_table`
and the least chain is found by a walk over the modules                          -> `best_chain`

Here a and b are single devices where the plain path may be in several places at once; that is
what makes the sum of the modules larger than the path of the whole.

Edges are walked level by level (by the longest way from the last articulation), all edges of a
level at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.core.time_is_up import Late, check_late, never
from tvm_hetero.views.array_types import FloatArray, IntArray
from tvm_hetero.views.arrays import Figures
from tvm_hetero.views.articulation import articulation_positions

# Numbers in the tables of heads by modules, above which the modules are left together.
_MOST_CELLS = 20_000_000
# Numbers of copy times that are made at once.
_MOST_COPIES = 4_000_000


@dataclass(frozen=True)
class Cuts:
    """Where a graph is cut: positions of the articulations, and the module of every task.

    Module m ends with `at[m]` and has everything after `at[m - 1]`; one more may follow.
    """

    at: tuple[int, ...]
    module: IntArray
    count: int

    @classmethod
    def of(cls, figures: Figures, at: Sequence[int] = ()) -> Cuts:
        """Cut at the tasks `at`, which are sorted."""
        n = len(figures)
        module = np.searchsorted(np.array(at, dtype=np.int64), np.arange(n), side="left")
        return cls(tuple(at), module, int(module[-1]) + 1)


def articulations(figures: Figures) -> list[int]:
    """The tasks that all others precede or follow, and no tensor passes."""
    return articulation_positions(len(figures), figures.src, figures.dst)


def fastest_path(figures: Figures) -> float:
    """The longest path of the tasks' least times, s.

    `report.schedule.text.critical_path` shows this path for a whole batch and without colors: for
    B > 1 its tasks take the time of B elements, where this bound takes the least of any size.
    """
    end = [0.0] * len(figures)
    least = figures.least.min(axis=1).tolist()
    edges = zip(figures.src.tolist(), figures.dst.tolist(), strict=True)
    ready = [0.0] * len(figures)
    pending = sorted((w, u) for u, w in edges)
    at = 0
    for v in range(len(figures)):
        while at < len(pending) and pending[at][0] == v:
            ready[v] = max(ready[v], end[pending[at][1]])
            at += 1
        end[v] = ready[v] + least[v]
    return max(end)


def heads_and_tails(figures: Figures, late: Late = never) -> tuple[FloatArray, FloatArray]:
    """(tasks, devices) each, s: see the head of this file.

    `heads_tails.heads_and_tails` is the same for an instance but for the last digits (its own text
    says why there are two).
    """
    cuts = Cuts.of(figures)
    heads = _heads(figures, cuts, split=False, late=late)[0]
    return heads, _tails(figures, cuts, split=False, late=late)[0]


def critical_path(
    head: FloatArray | Sequence[Sequence[float]], tail: FloatArray | Sequence[Sequence[float]]
) -> float:
    """max over tasks, min over devices of head + tail (inf where a task cannot run)."""
    return float((np.asarray(head) + np.asarray(tail)).min(axis=1).max())


def module_table(figures: Figures, cuts: Cuts, late: Late = never) -> FloatArray:
    """(modules, devices, devices): a bound of every M(i, j), s; inf where it cannot be.

    The first module has the same row for every i, one after the last cut the same column for
    every j.

    Raises
    ------
    TimeIsUp
        If it is `late`: a thousand tasks on a hundred devices take seconds.
    """
    head = _heads(figures, cuts, split=True, late=late)
    tail = _tails(figures, cuts, split=True, late=late)
    k = len(figures.latency)
    table = np.zeros((cuts.count, k, k))
    begins = np.searchsorted(cuts.module, np.arange(cuts.count))
    for i in range(k):
        check_late(late)
        for j in range(k):
            paths = (head[i] + tail[j]).min(axis=1)
            table[:, i, j] = np.maximum.reduceat(paths, begins)
    return table


def fits(figures: Figures) -> bool:
    """Whether `module_table` stays within its memory."""
    n, k = figures.least.shape
    return bool(n * k * k <= _MOST_CELLS)


def best_chain(table: FloatArray) -> tuple[float, list[tuple[int, int]]]:
    """The least sum of M along the modules, and the (i, j) of every module on the way."""
    value = np.zeros(table.shape[1])
    back = []
    for entry in table:
        total = value[:, None] + entry
        come = total.argmin(axis=0)
        back.append(come)
        value = total[come, np.arange(len(come))]
    j = int(value.argmin())
    path = []
    for come in reversed(back):
        path.append((int(come[j]), j))
        j = int(come[j])
    return float(value.min()), path[::-1]


def _levels(edges: IntArray, level: IntArray) -> Iterator[IntArray]:
    """The edges in groups of equal level, by rising level."""
    order = edges[np.argsort(level[edges], kind="stable")]
    ends = np.flatnonzero(np.diff(level[order])) + 1
    yield from (part for part in np.split(order, ends) if len(part))


def _depths(figures: Figures, cuts: Cuts, *, forward: bool) -> IntArray:
    """For every task the most edges from (to) a source (sink) or cut of its module."""
    depth = [0] * len(figures)
    at = set(cuts.at)
    src, dst = figures.src.tolist(), figures.dst.tolist()
    if forward:  # edges are sorted by reader, so makers are done
        for u, w in zip(src, dst, strict=True):
            depth[w] = max(depth[w], 1 if u in at else depth[u] + 1)
    else:
        by_maker = sorted(zip(src, dst, strict=True), reverse=True)
        for u, w in by_maker:
            depth[u] = max(depth[u], 1 if w in at else depth[w] + 1)
    return np.array(depth, dtype=np.int64)


def _heads(figures: Figures, cuts: Cuts, *, split: bool, late: Late = never) -> FloatArray:
    """(first's device, tasks, devices) if `split`, else (1, tasks, devices)."""
    n, k = figures.least.shape
    count = k if split else 1
    ready = np.zeros((count, n, k))
    end = np.full((count, n, k), math.inf)
    begin = _at_one(k) if split else np.zeros((1, k))
    at = np.zeros(n, dtype=bool)
    at[list(cuts.at)] = True
    depth = _depths(figures, cuts, forward=True)
    end[:, depth == 0] = figures.least[depth == 0]
    for edges in _levels(np.arange(len(figures.src)), depth[figures.dst]):
        for part in _slices(edges, count * k * k):
            check_late(late)
            src, dst = figures.src[part], figures.dst[part]
            state = np.where(at[src][None, :, None] & split, begin[:, None, :], end[:, src])
            arrival = (state[..., None] + figures.copies(part)).min(axis=2)
            _maximum_at(ready, dst, arrival)
        tasks = np.unique(figures.dst[edges])
        end[:, tasks] = ready[:, tasks] + figures.least[tasks]
    return end


def _tails(figures: Figures, cuts: Cuts, *, split: bool, late: Late = never) -> FloatArray:
    """(last's device, tasks, devices) if `split`, else (1, tasks, devices)."""
    n, k = figures.least.shape
    count = k if split else 1
    tail = np.zeros((count, n, k))
    at = np.zeros(n, dtype=bool)
    at[list(cuts.at)] = True
    stop = _at_one(k) if split else np.zeros((1, k))
    depth = _depths(figures, cuts, forward=False)
    for edges in _levels(np.arange(len(figures.src)), depth[figures.src]):
        for part in _slices(edges, count * k * k):
            check_late(late)
            src, dst = figures.src[part], figures.dst[part]
            after = np.where(at[dst][None, :, None] & split, stop[:, None, :], tail[:, dst])
            # (tail + run) + copy; `heads_tails` sums (copy + run) + tail.
            run = after + figures.least[dst]
            times = (run[:, :, None, :] + figures.copies(part)).min(axis=3)
            inside = ~(at[src] & split)
            _maximum_at(tail, src[inside], times[:, inside])
    if split:
        tail[:, list(cuts.at)] = stop[:, None, :]
    return tail


def _at_one(k: int) -> FloatArray:
    """Row i: 0 at device i, inf elsewhere."""
    table: FloatArray = np.where(np.eye(k, dtype=bool), 0.0, math.inf)
    return table


def _slices(edges: IntArray, cells: int) -> list[IntArray]:
    return np.array_split(edges, max(1, math.ceil(len(edges) * cells / _MOST_COPIES)))


def _maximum_at(table: FloatArray, rows: IntArray, values: FloatArray) -> None:
    """table[:, rows] = max(table[:, rows], values), where rows may repeat."""
    if not len(rows):
        return
    order = np.argsort(rows, kind="stable")
    found, first = np.unique(rows[order], return_index=True)
    most = np.maximum.reduceat(values[:, order], first, axis=1)
    table[:, found] = np.maximum(table[:, found], most)


def path_of(figures: Figures, late: Late = never) -> float:
    """The device-aware critical path, by modules where that is quicker; 0 if it is infinite, s.

    Raises
    ------
    TimeIsUp
        If it is `late`.
    """
    own = figures.merged
    if fits(own):
        value = best_chain(module_table(own, Cuts.of(own, articulations(own)), late))[0]
    else:
        value = critical_path(*heads_and_tails(own, late))
    return value if value < math.inf else 0.0


def limit_of(figures: Figures, path: float) -> float:
    """A makespan that programs may assume, far above any that is of interest (see `linear`), s."""
    return 4 * (path + math.fsum(figures.rate.min(axis=1).tolist())) or 1.0
