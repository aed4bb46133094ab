"""Linear programs of the modules, combined by the chain of their ends' devices.

One element only. M(i, j), from the end of one articulation on i to the end of the next on j, is
bounded first by critical paths (`critical_path.module_table`), then, where it matters, by the
linear program of the module with its ends pinned (`precedence`). Between the two articulations
nothing else runs, so the module's loads have to fit into M: that is what the program of the whole
graph does not know. The least chain of entries bounds the makespan. An entry matters when it lies
on the least chain: those are raised until a chain of raised entries is the least.

Batches: where a batch is divided, later elements are in one module while earlier ones are in the
next, so that devices are not idle when an articulation ends and the sum of the modules bounds
nothing. There the program of the whole graph remains.

Equal modules (same tables, same edges, in the canonical order of `tvm_hetero.views.modularity`)
share their entries.

*Branching.* A program's solution runs parts of a task on several devices, which no schedule does
(one element). The task that is split most is tried on every device: the least of the bounds of
these cases is a bound of the entry, and the case with the least is branched next. Cases have
heads and tails of their own, so that they gain more than the program's rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from tvm_hetero.bounds.core.time_is_up import Late, never
from tvm_hetero.bounds.latency.critical_path import Cuts, best_chain, module_table
from tvm_hetero.bounds.latency.loads import cores_of, maximize_prices
from tvm_hetero.bounds.latency.precedence import PrecedenceModel, work_of
from tvm_hetero.bounds.latency.subgraph import Subgraph
from tvm_hetero.views.array_types import FloatArray, IntArray
from tvm_hetero.views.arrays import Figures
from tvm_hetero.views.modularity import canonical

Key = tuple[object, ...]
# What sharing the loads of a module takes, in numbers of a program.
_SHARED = 1_000
# Tasks of modules for which a first program looks at all ends at once.
_LARGE = 8


@dataclass(order=True)
class _ModuleCase:
    """Tasks of a module held on devices, its bound, and the task to hold next (None: none)."""

    bound: float
    number: int
    held: dict[int, int] = field(compare=False)
    next: int | None = field(compare=False)


@dataclass
class _ModuleEntry:
    """The cases of an M(i, j) as a heap; one case before anything is branched."""

    module: int
    ends: tuple[int, int]
    cases: list[_ModuleCase]
    uses: int = 0
    branched: int = 0

    @property
    def bound(self) -> float:
        return self.cases[0].bound

    @property
    def promise(self) -> float:
        """What branching may bring: more for long modules that occur often."""
        return self.uses * self.bound / (1 + self.branched)


@dataclass
class ModuleChain:
    """The table of all modules, of which some entries were raised by programs.

    Attributes
    ----------
    limit : a makespan that no entry is assumed to exceed (see `linear`), s.
    late : whether there is no time for the table any more.
    work : numbers in the programs that were solved so far.
    """

    figures: Figures
    cuts: Cuts
    limit: float
    late: Late = never
    table: FloatArray = field(init=False)
    known: dict[tuple[Key, int, int], _ModuleEntry] = field(default_factory=dict)
    keys: dict[int, Key] = field(default_factory=dict)
    work: int = 0

    def __post_init__(self) -> None:
        self.table = module_table(self.figures, self.cuts, self.late)
        self._begins = np.searchsorted(self.cuts.module, np.arange(self.cuts.count + 1))
        module = self.cuts.module[self.figures.dst]
        self._edges = np.searchsorted(module, np.arange(self.cuts.count + 1))
        self._raised: dict[tuple[int, int, int], _ModuleEntry | None] = {}
        self._all_raised = False

    def value(self) -> float:
        """The bound so far, s."""
        return best_chain(self.table)[0]

    def close(self, work: int) -> float:
        """Raise entries until the least chain is raised, or `work` is used up; the bound, s."""
        self._raise_all(work)
        while self.work <= work:
            value, path = best_chain(self.table)
            todo = [(m, i, j) for m, (i, j) in enumerate(path) if (m, i, j) not in self._raised]
            if not todo:
                return value
            for m, i, j in todo:
                if self.work > work:
                    break
                self._raise(m, i, j, work)
        return self.value()

    def branch(self, work: int) -> float:
        """Branch in the entries of the least chain until `work` is used up; the bound, s."""
        value = self.close(work)
        while self.work <= work:
            _, path = best_chain(self.table)
            entries = {}
            for m, (i, j) in enumerate(path):
                entry = self._raised.get((m, i, j))
                if entry is not None and entry.cases[0].next is not None:
                    entries[id(entry)] = entry
            if not entries:
                return value
            entry = max(entries.values(), key=lambda e: (e.promise, -e.module))
            self._branch(entry)
            for (m, i, j), other in self._raised.items():
                if other is entry:
                    self.table[m, i, j] = max(self.table[m, i, j], entry.bound)
            value = self.close(work)
        return value

    # --- what a module adds to the whole (for `nested`) -------------------------------------------

    def parts(self, m: int) -> int:
        """The number of tasks of module m, with the one before it."""
        return len(self._tasks(m))

    def unlike(self, modules: Sequence[int]) -> list[int]:
        """The first of each kind of equal modules."""
        return list({self._key(m): m for m in reversed(modules)}.values())[::-1]

    def around(self, m: int) -> Subgraph:
        """Module m with all that is before it and after it as one task each.

        Its first ends when the chain before can have ended, by the device; what the chain after
        takes at least is counted with its last. So its makespan is one of the whole graph.
        """
        part, (first, last) = self._part(m, None, {}), self._ends(m)
        least, rate = part.least.copy(), part.rate.copy()
        for here, row, times in ((first, 0, self._before(m)), (last, -1, self._after(m))):
            if here is not None:
                least[row] += times
                rate[row] += times
        return Subgraph.of(self.figures, part.tasks, part.edges, least, rate)

    def lift(self, m: int, values: FloatArray) -> None:
        """Note that no makespan is below `values[i, j]` with the ends of module m on i and j, s.

        Where it has no first (last), all rows (columns) must be equal.
        """
        first, last = self._ends(m)
        rest = np.zeros_like(self.table[m])
        if first is not None:
            rest += self._before(m)[:, None]
        if last is not None:
            rest += self._after(m)[None, :]
        entries = np.where(np.isfinite(rest), values - np.where(np.isfinite(rest), rest, 0.0), 0.0)
        for other in range(self.cuts.count):
            if self._key(other) == self._key(m):
                self.table[other] = np.maximum(self.table[other], entries)

    def _before(self, m: int) -> FloatArray:
        """By the device of the first of module m: the least sum of the modules before."""
        value = np.zeros(self.table.shape[1])
        for entry in self.table[:m]:
            value = (value[:, None] + entry).min(axis=0)
        return value

    def _after(self, m: int) -> FloatArray:
        """By the device of the last of module m: the least sum of the modules after."""
        value = np.zeros(self.table.shape[1])
        for entry in self.table[:m:-1]:
            value = (entry + value[None, :]).min(axis=1)
        return value

    # --- programs ------------------------------------------------------------------------------

    def _raise_all(self, work: int) -> None:
        """The programs of large modules with their ends anywhere: for all entries at once.

        They bound less than those of the entries, but one is there for each module before the
        work is used up.
        """
        if self._all_raised:
            return
        self._all_raised = True
        known: dict[Key, float] = {}
        for m in range(self.cuts.count):
            if len(self._tasks(m)) < _LARGE or not self.work + self.price(m) <= work:
                continue
            key = self._key(m)
            if key not in known:
                known[key] = self._solve(m, None, {}, 0).bound
            self.table[m] = np.maximum(self.table[m], known[key])

    def _raise(self, m: int, i: int, j: int, work: int) -> None:
        self._raised[m, i, j] = None
        if self._begins[m + 1] - self._begins[m] < 2 and None not in self._ends(m):
            return  # one task: the critical path is exact
        if self.price(m) > work:
            self._share(m)
            return
        key = (self._key(m), i, j)
        if key not in self.known:
            self.known[key] = _ModuleEntry(m, (i, j), [self._solve(m, (i, j), {}, 0)])
        entry = self.known[key]
        entry.uses += 1
        self._raised[m, i, j] = entry
        self.table[m, i, j] = max(self.table[m, i, j], entry.bound)

    def price(self, m: int) -> int:
        """What a program of module m takes (see `work_of`)."""
        tasks, edges = np.diff(self._begins)[m], np.diff(self._edges)[m]
        return work_of(self.figures, int(tasks) + 1, int(edges))

    def _share(self, m: int) -> None:
        """Where a program would be too big: the loads of a module alone, for all its entries."""
        own = slice(self._begins[m], self._begins[m + 1])
        self.table[m] = np.maximum(
            self.table[m], maximize_prices(self.figures.rate[own], cores_of(self.figures))
        )
        self.work += _SHARED

    def _branch(self, entry: _ModuleEntry) -> None:
        """Replace the least case by one for each device of its next task."""
        case = heappop(entry.cases)
        assert case.next is not None, "only open cases are branched"
        v = self._tasks(entry.module)[case.next]
        for d in np.flatnonzero(np.isfinite(self.figures.least[v])).tolist():
            entry.branched += 1
            held = {**case.held, case.next: d}
            found = self._solve(entry.module, entry.ends, held, entry.branched)
            found.bound = max(found.bound, case.bound)
            heappush(entry.cases, found)

    def _ends(self, m: int) -> tuple[int | None, int | None]:
        at = self.cuts.at
        return (at[m - 1] if m else None, at[m] if m < len(at) else None)

    def _tasks(self, m: int) -> IntArray:
        """The tasks of a module with the one before it."""
        first, _ = self._ends(m)
        own = np.arange(self._begins[m], self._begins[m + 1])
        return own if first is None else np.append([first], own)

    def _key(self, m: int) -> Key:
        """What two modules share if their entries are equal."""
        if m not in self.keys:
            figures, tasks = self.figures, self._tasks(m)
            parts = [figures.tasks[v] for v in tasks]
            order = canonical(figures.instance, parts)
            place = {v: p for p, v in enumerate(order)}
            rows = sorted(
                (place[figures.tasks[figures.src[e]]], place[figures.tasks[figures.dst[e]]], e)
                for e in range(self._edges[m], self._edges[m + 1])
            )
            tensors: dict[int, int] = {}
            edges = tuple(
                (u, w, tensors.setdefault(int(t), len(tensors)), float(figures.nbytes[t]))
                for u, w, t in ((u, w, figures.tensor[e]) for u, w, e in rows)
            )
            times = tuple(figures.instance.seconds[v] for v in order)
            groups = tuple(figures.instance.group_of[v] for v in order)
            colors = groups if len(set(groups)) < len(groups) else ()
            ends = tuple(end is None for end in self._ends(m))
            self.keys[m] = (ends, times, edges, colors)
        return self.keys[m]

    def _solve(
        self, m: int, ends: tuple[int, int] | None, held: dict[int, int], number: int
    ) -> _ModuleCase:
        """The program of module m between first and last on `ends`, some tasks held."""
        part = self._part(m, ends, held)
        best = float((part.head + part.tail).min(axis=1).max())
        if not math.isfinite(best):
            return _ModuleCase(math.inf, number, held, None)
        model = PrecedenceModel(part, self.limit, max(best, self.limit * 1e-6)).build()
        self.work += self.price(m)
        bound = max(best, model.bound())
        return _ModuleCase(bound, number, held, model.undecided())

    def _part(self, m: int, ends: tuple[int, int] | None, held: dict[int, int]) -> Subgraph:
        figures, tasks = self.figures, self._tasks(m)
        first, last = self._ends(m)
        least, rate = figures.least[tasks].copy(), figures.rate[tasks].copy()
        if first is not None:
            allowed = np.isfinite(least[0])
            least[0, allowed], rate[0, allowed] = 0.0, 0.0
        if ends is not None and first is not None:
            held = {**held, 0: ends[0]}
        if ends is not None and last is not None:
            held = {**held, len(tasks) - 1: ends[1]}
        for i, d in held.items():
            elsewhere = np.arange(least.shape[1]) != d
            least[i, elsewhere], rate[i, elsewhere] = math.inf, math.inf
        edges = np.arange(self._edges[m], self._edges[m + 1])
        return Subgraph.of(figures, tasks, edges, least, rate)
