"""The linear program of precedence, loads and copies: a bound of a whole graph or of a module.

Variables (`transfer_shares`; tasks v, devices d; times are means over the elements of a batch):

    x(v, d, c)  share of the batch that v runs on d at choice c of its costs (`views.arrays`)
    y(v, d)     sum over c of x(v, d, c)
    S(v)        start of the execution that holds an element
    in, out(t, d)   share of tensor t that arrives at, leaves d

    minimise T  subject to
      sum over d of y(v, d) = 1                               `TransferShares.add_shares`
      S(u) + sum path x(u) + copies of (u, w) <= S(w)         `_add_order`, `add_copies`
      sum of (head - least)(v, d) y(v, d)  <=  S(v)           `_add_windows`
      S(v) + sum path x(v) + sum of tail(v, d) y(v, d) <= T   `_add_windows`
      sum load x + sum hop(t, d) (in + out)(t, d) <= T        `build`, `_add_moves`, for teams by
                                                              core, without hops: `_gather_cores`
      sum of weights(v) y(v, d)  <=  memory of d              `_add_memory`
      S(a) + sum path x, of a and on d up to b  <=  S(b)      `_add_turns`

The most violated rows of `load_cuts` and `count_cuts` are added in rounds: `PrecedenceModel.bound`,
at most `limit`.

Derivation: docs/method/precedence.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tvm_hetero.bounds.latency.count_cuts import CutCounts
from tvm_hetero.bounds.latency.critical_path import articulations
from tvm_hetero.bounds.latency.load_cuts import LoadActivity, find_violated, merge_terms
from tvm_hetero.bounds.latency.loads import hops_of
from tvm_hetero.bounds.latency.transfer_shares import MOST_DEVICES, TransferShares
from tvm_hetero.problem.objective import RELATIVE_TOLERANCE
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.arrays import NODES, Figures

_ROUNDS = 4
# Numbers of a program whose time a number is twice that of a small one.
_LARGE = 15_000
# Times that a program takes with copies that are work of devices, measured.
_MOVING = 3
# Times that may count as none, as a part of the longest makespan.
_BLINK = 4 * RELATIVE_TOLERANCE
# Price of one task more than a count cut allows: beyond every makespan, whose unit is `scale`.
_EXCESS = 8.0


@dataclass
class PrecedenceModel(TransferShares):
    """The program of a part, for makespans up to `limit`; times in units of `scale` seconds.

    Times may be `room` times the limit in the program, so that it has a solution, hence duals,
    where no schedule is within the limit. `counts` are rows for makespans below some limit, by
    device, whose worst are added too.
    """

    counts: Sequence[CutCounts] = ()
    start: list[int] = field(default_factory=list)
    makespan: int = -1
    excess: int = -1
    floor: float = 0.0
    point: FloatArray | None = None

    def build(self) -> PrecedenceModel:
        """Write all rows but the load cuts."""
        if not self.possible():
            return self
        self.makespan = self.program.variable(self.room * self.limit / self.scale, 1.0)
        self.floor = float((self.part.head + self.part.tail).min(axis=1).max()) / self.scale
        self.add_shares()
        self._gather_cores()
        self._add_windows()
        self._add_order()
        self._add_turns()
        self._add_moves()
        self._add_memory()
        for _, work in sorted(self.work.items()):
            row = [term for what in work for term in what.terms]
            self.program.at_most([*merge_terms(row), (self.makespan, -1.0)], 0.0)
        return self

    # --- order -------------------------------------------------------------------------------

    def _add_windows(self) -> None:
        part = self.part
        for i in range(len(part.tasks)):
            self.start.append(self.program.variable(self.room * self.limit / self.scale))
            least = part.least[i]
            head, tail = [], []
            for d in range(len(least)):
                share = self.share(i, d)
                if share >= 0:
                    head.append((share, float(part.head[i, d] - least[d]) / self.scale))
                    tail.append((share, float(part.tail[i, d]) / self.scale))
            self.program.at_most([*_nonzero(head), (self.start[i], -1.0)], 0.0)
            ends = [(self.start[i], 1.0), *self.path(i), *_nonzero(tail), (self.makespan, -1.0)]
            self.program.at_most(merge_terms(ends), 0.0)

    def _add_order(self) -> None:
        part = self.part
        local = {int(v): i for i, v in enumerate(part.tasks)}
        figures = part.figures
        copies = figures.copies(part.edges) / self.scale
        for e, times in zip(part.edges, copies, strict=True):
            u, w = local[int(figures.src[e])], local[int(figures.dst[e])]
            more = float(figures.nbytes[figures.tensor[e]]) * figures.inverse / self.scale
            moved = self.add_copies(u, w, times, more)
            row = [(self.start[u], 1.0), *self.path(u), *moved, (self.start[w], -1.0)]
            self.program.at_most(merge_terms(row), 0.0)

    def _add_turns(self) -> None:
        """Between articulations an element is in one execution of a device at a time."""
        part, count = self.part, len(self.part.tasks)
        if part.figures.batch == 1 or count < len(part.figures):
            return
        cuts = articulations(part.figures)
        for a, b in zip([-1, *cuts], [*cuts, count], strict=True):
            before = [] if a < 0 else [(self.start[a], 1.0), *self.path(a)]
            after = self.start[b] if b < count else self.makespan
            for d in range(len(part.figures.latency)):
                row = [term for i in range(a + 1, b) for term in self.paths_on(i, d)]
                if row:
                    self.program.at_most(merge_terms([*before, *row, (after, -1.0)]), 0.0)

    # --- devices -----------------------------------------------------------------------------

    def _gather_cores(self) -> None:
        """Of teams it is a core that does one thing at a time, for all devices on it.

        Copies are not added to these rows: a core of both ends would count them twice.
        """
        instance = self.part.figures.instance
        if instance.teams:
            work: dict[int, list[LoadActivity]] = {}
            for d, own in sorted(self.work.items()):
                for core in instance.cores[d]:
                    work.setdefault(core, []).extend(own)
            self.work = work

    def _add_moves(self) -> None:
        """Copies as work of the devices that have no copy engine."""
        part = self.part
        figures, instance = part.figures, part.figures.instance
        local = {int(v): i for i, v in enumerate(part.tasks)}
        tensors: dict[int, list[int]] = {}
        for e in part.edges:
            tensors.setdefault(int(figures.tensor[e]), []).append(int(e))
        for d, times in hops_of(figures).items():
            for t, edges in tensors.items():
                seconds = float(times[t]) / self.scale
                u = local[int(figures.src[edges[0]])]
                readers = [local[int(figures.dst[e])] for e in edges]
                if seconds > 0:
                    before = float(part.head[u].min()) / self.scale
                    after = min(self._rest(w) for w in readers)
                    self._add_move(
                        d, u, readers, LoadActivity([], before, after), seconds, instance
                    )

    def _rest(self, i: int) -> float:
        """The least time from the start of task i to the end, scaled."""
        part = self.part
        return float((part.least[i] + part.tail[i]).min()) / self.scale

    def _add_move(
        self,
        d: int,
        u: int,
        readers: list[int],
        what: LoadActivity,
        seconds: float,
        instance: object,
    ) -> None:
        made = self.share(u, d)
        read = sorted({self.share(w, d) for w in readers})
        for sign in (1.0, -1.0):  # arriving, leaving
            if sign < 0 and made < 0:
                continue
            pairs = [r for r in read if r != made and (r >= 0 or sign < 0)]
            if not pairs:
                continue
            moved = self.program.variable()
            for r in pairs:
                row = [(x, s) for x, s in ((r, sign), (made, -sign)) if x >= 0]
                self.program.at_most([*row, (moved, -1.0)], 0.0)
            one = LoadActivity([(moved, seconds)], what.before, what.after)
            self.work.setdefault(d, []).append(one)

    def _add_memory(self) -> None:
        figures, instance = self.part.figures, self.part.figures.instance
        for d, binds in enumerate(instance.memory_binds):
            if not binds:
                continue
            limit = float(instance.capacity[d] or 0)
            row = []
            for i, v in enumerate(self.part.tasks):
                own = figures.tasks[v]
                # Parts of one task share its weights, so each counts for its part of them.
                shared = len(instance.parts_of[instance.task_of[own]])
                held = instance.weights[own] / shared
                # An output written in no time at the very end needs nothing (rule 6); times
                # below a schedule's tolerance count as none.
                if float(self.part.least[i, d]) > _BLINK * self.limit:
                    held += instance.unread[own]
                if self.share(i, d) >= 0 and held:
                    row.append((self.share(i, d), held / max(limit, 1.0)))
            if row:
                self.program.at_most(merge_terms(row), 1.0 if limit else 0.0)

    # --- solving -----------------------------------------------------------------------------

    def bound(self) -> float:
        """A bound of the makespan, s: `limit` if nothing can be within it."""
        if self.makespan < 0:
            return self.limit
        best = 0.0
        for _ in range(_ROUNDS):
            answer = self.program.solve()
            best = max(best, answer.bound)
            self.floor = max(self.floor, best)
            self.point = answer.point
            if answer.point is None or best * self.scale >= self.limit:
                break
            added = [self._cut(d, answer.point) for d in sorted(self.work)]
            added += [self._count(d, answer.point) for d in range(len(self.counts))]
            if not any(added):
                break
        return min(best * self.scale, self.limit)

    def charge(self, time: float, busy: FloatArray) -> None:
        """Minimise time x T + busy(d) x work on d instead of T (per scaled second)."""
        self.program.cost[self.makespan] = time
        for d, work in self.work.items():
            for x, seconds in merge_terms([term for what in work for term in what.terms]):
                self.program.cost[x] += float(busy[d]) * seconds

    def undecided(self) -> int | None:
        """The task that is most of all on several devices in the last solution; None for none."""
        if self.point is None:
            return None
        most: dict[int, float] = {}
        for (i, _), columns in self.place.items():
            most[i] = max(most.get(i, 0.0), float(self.point[columns[0]]))
        shortest = self.part.rate.min(axis=1) / self.scale
        score = {i: (1.0 - share) * (1e-3 + shortest[i]) for i, share in most.items()}
        task = max(sorted(score), key=lambda i: score[i])
        return task if most[task] < 1 - 1e-6 else None

    def _cut(self, d: int, point: FloatArray) -> bool:
        """Add the load rows of d that are violated most; whether there were any."""
        time = float(point[self.makespan])
        found = find_violated(self.work[d], point, time, self.floor)
        for row, ends in found:
            self.program.at_most([*row, (self.makespan, -1.0)], -ends)
        return bool(found)

    def _count(self, d: int, point: FloatArray) -> bool:
        """Add the count cuts of d that are violated most; whether there were any."""
        columns = [self.share(i, d) for i in range(len(self.part.tasks))]
        shares = np.array([point[x] if x >= 0 else 0.0 for x in columns])
        found = self.counts[d].violated(shares)
        for tasks, most in found:
            if self.excess < 0:
                # A program without a solution has no duals: what is too much has a price instead.
                self.excess = self.program.variable(float(len(columns)), _EXCESS * self.room)
            row = [(columns[i], 1.0) for i in tasks if columns[i] >= 0]
            self.program.at_most([*merge_terms(row), (self.excess, -1.0)], most)
        return bool(found)


def work_of(figures: Figures, tasks: int, edges: int) -> int:
    """What the program of so many tasks and edges takes, in numbers of a small program.

    The simplex method takes more than in proportion to the numbers.
    """
    k = figures.least.shape[1]
    corners = min(figures.batch, NODES)
    pairs = k if k > MOST_DEVICES else k * k
    # Choices of sizes along an edge: in the way of its ends, and in its copies.
    sizes = 0 if figures.batch == 1 else 3 * corners * k
    moves = 4 * len(hops_of(figures)) * edges
    size = tasks * k * (5 + 3 * corners) + edges * ((sizes or 2 * k) + 3 * pairs) + moves
    hard = _MOVING if moves else 1
    work: int = math.ceil(hard * size * (1 + size / _LARGE))
    return work


def _nonzero(terms: Sequence[tuple[int, float]]) -> Iterator[tuple[int, float]]:
    return ((x, a) for x, a in terms if a)
