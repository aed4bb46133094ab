"""The table of the count-based dynamic program: how far down the line, with how much used.

A state after the atoms 0 .. p - 1 is

    (machine type, how many nodes of it are used, how many devices of each class are used in the
     node that is open, class of the last device, memory taken on the node's spill device)

and its value the least time so far (latency) or the least largest load (throughput). A device
takes a segment of the line and is then used up, except one device of a node (`spill`, the slowest
one that is alone in its class) which may be come back to, as its memory is part of the state: where
fast memory is short, it takes the single tasks that segments cannot fit in. From a state

    segment   the next atoms p .. q - 1 go to an unused device of class c of the open node
    spill     atom p goes to the spill device                       (latency alone)
    next      a node of the same type, or the first of a later type, is opened at p

The counts replace names, so n identical nodes give n states and not 2^n. Types of machines are
used in the order in which they are given. For one type it is exact in the class of segments (and
spills); the program is that of chain partitioning (S. Bokhari, IEEE Trans. Computers 37, 1988,
doi:10.1109/12.2137), with the counts of H. Choi and B. Narahari's heterogeneous variants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.solvers.core.deadline import Deadline, check_time
from tvm_hetero.solvers.counting.machine_row import Shelf, Used
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.machine_counts import NodeType, TaskLine

# Levels of spill memory, less where the table would become large.
_LEVELS = 512
_MOST_CELLS = 12_000_000


@dataclass(frozen=True)
class CountState:
    """Where a segment ends: type, node of that type, used devices, last class, spill memory."""

    machine: int
    node: int
    used: Used
    last: int
    level: int


class CountTable:
    """The whole program; `machines` in the order in which they may be used."""

    def __init__(
        self,
        line: TaskLine,
        machines: Sequence[NodeType],
        *,
        steady: bool,
        spills: bool = True,
        ends: Deadline | None = None,
    ) -> None:
        """Fill the table; SolverError if that is not done when the time is up."""
        self.line, self.steady = line, steady
        levels = _LEVELS
        cells = sum(len(m.nodes) * math.prod(n + 1 for n in m.counts) * 2 for m in machines)
        levels = max(8, min(levels, _MOST_CELLS // max(1, cells * len(line))))
        self.shelves: list[Shelf] = []
        self.inter: dict[tuple[int, int, int, int], FloatArray] = {}
        for machine in machines:
            # Of 64 machines no two of which are alike, this takes seconds.
            check_time(ends, "count-dp", 0, len(line))
            self.shelves.append(Shelf(line, machine, levels, steady=steady, spills=spills))
            self._join_machine(len(self.shelves) - 1)
        for p in range(len(line)):
            check_time(ends, "count-dp", p, len(line))
            for number in range(len(self.shelves)):
                self._extend(p, number)

    @property
    def work(self) -> float:
        """About the seconds that building the table took, counted and not measured.

        A state costs 50 us at every atom, and each of its cells 0.1 ns for every atom behind.
        """
        states = sum(len(shelf.states) for shelf in self.shelves)
        cells = sum(shelf.values.size for shelf in self.shelves)
        return len(self.line) * (5e-5 * states + 1e-10 * cells)

    def _join_machine(self, b: int) -> None:
        """Copies to machines of type `b` from those before it and from its own."""
        for a in range(b + 1):
            if a == b and len(self.shelves[b].machine.nodes) < 2:
                continue
            for j in range(len(self.shelves[a].counts)):
                for k in range(len(self.shelves[b].counts)):
                    self.inter[a, j, b, k] = self._inter(a, j, b, k)

    def _inter(self, a: int, j: int, b: int, k: int) -> FloatArray:
        one, other = self.shelves[a].machine, self.shelves[b].machine
        target = other.nodes[1 if a == b else 0][k][0]
        return self.line.crossings(one.like(j), target)

    def _join(self, left: FloatArray, right: FloatArray | float) -> FloatArray:
        result: FloatArray = np.maximum(left, right) if self.steady else left + right
        return result

    def _wait(self, seconds: float) -> float:
        """What a copy adds to a value: in steady state copies are in the loads, if anywhere."""
        return 0.0 if self.steady and seconds < math.inf else seconds

    def _extend(self, p: int, number: int) -> None:
        """All that can begin at atom `p` on machines of one type."""
        shelf = self.shelves[number]
        for s, (used, c) in enumerate(shelf.states):
            begin = self._begin(p, number, used, c)
            if not np.isfinite(begin).any():
                continue
            if c != shelf.spill:
                ends = shelf.segment[c][p, p + 1 :]
                last = p + 1 + int(np.isfinite(ends).sum())
                target = shelf.values[p + 1 : last, s]
                cost = ends[: last - p - 1, None, None]
                np.minimum(target, self._join(begin[None], cost), out=target)
            else:
                w = int(shelf.taken[p])
                if w <= shelf.levels:
                    target = shelf.values[p + 1, s, :, w:]
                    moved = begin[:, : shelf.levels + 1 - w] + shelf.own[p]
                    np.minimum(target, moved, out=target)

    def _begin(self, p: int, number: int, used: Used, c: int) -> FloatArray:
        """The least values with which a device of class `c` can begin at `p`, [node, level]."""
        shelf = self.shelves[number]
        result = np.full(shelf.values.shape[2:], math.inf)
        for s, wait in self._sources(p, number, used, c):
            np.minimum(result, shelf.values[p, s] + wait, out=result)
        if sum(used) == (0 if c == shelf.spill else 1):
            result[:, 0] = np.minimum(result[:, 0], self._entry(p, number, c))
        return result

    def _sources(self, p: int, number: int, used: Used, c: int) -> list[tuple[int, float]]:
        """States of the open node from which a device of class `c` can begin, and the wait."""
        shelf = self.shelves[number]
        if c == shelf.spill:
            return [
                (shelf.number[used, k], 0.0 if k == c else self._wait(shelf.intra[k, c][p]))
                for k in range(len(used))
                if (used, k) in shelf.number
            ]
        before = shelf.before(used, c)
        if before is None:
            return []
        return [
            (shelf.number[before, k], self._wait(shelf.intra[k, c][p]))
            for k in range(len(used))
            if (before, k) in shelf.number
        ]

    def _entry(self, p: int, number: int, c: int) -> FloatArray:
        """The least values with which each node of a type can be opened at `p` on class `c`."""
        shelf = self.shelves[number]
        result = np.full(len(shelf.machine.nodes), math.inf)
        if p == 0:
            result[0] = 0.0
            return result
        for value, state in self._openers(p, number, c):
            i = state.node + 1 if state.machine == number else 0
            if i < len(result):
                result[i] = min(result[i], value)
        return result

    def _openers(self, p: int, number: int, c: int) -> list[tuple[float, CountState]]:
        """The best state of every node after which a node of type `number` can be opened."""
        found = []
        for a in range(number + 1):
            shelf = self.shelves[a]
            for j in range(len(shelf.counts)):
                if (a, j, number, c) not in self.inter:
                    continue
                wait = self._wait(float(self.inter[a, j, number, c][p]))
                mine = [s for s, (_, last) in enumerate(shelf.states) if last == j]
                if not mine or wait == math.inf:
                    continue
                nodes = len(shelf.machine.nodes)
                cells = shelf.values[p, mine].transpose(1, 0, 2).reshape(nodes, -1)
                best = cells.argmin(axis=1)
                for node, where in enumerate(best.tolist()):
                    value = float(cells[node, where])
                    if value < math.inf:
                        s, level = divmod(where, shelf.levels + 1)
                        used = shelf.states[mine[s]][0]
                        found.append((value + wait, CountState(a, node, used, j, level)))
        return found

    def best(self) -> tuple[float, CountState] | None:
        """The best value after all atoms, and its state; None if there is none."""
        found: tuple[float, CountState] | None = None
        for a, shelf in enumerate(self.shelves):
            final = shelf.values[-1]
            where = np.unravel_index(int(final.argmin()), final.shape)
            value = float(final[where])
            if value < math.inf and (found is None or value < found[0]):
                s, node, level = (int(i) for i in where)
                used, last = shelf.states[s]
                found = value, CountState(a, node, used, last, level)
        return found

    def homes(self, state: CountState) -> list[int]:
        """The device of every atom on the way to a final state."""
        q = len(self.line)
        homes = [-1] * q
        here: CountState | None = state
        while here is not None:
            p, before = self._step_back(q, here)
            shelf = self.shelves[here.machine]
            rank = 0 if here.last == shelf.spill else here.used[here.last] - 1
            device = shelf.machine.nodes[here.node][here.last][rank]
            homes[p:q] = [device] * (q - p)
            q, here = p, before
        return homes

    def _step_back(self, q: int, state: CountState) -> tuple[int, CountState | None]:
        """Where the last segment of a state began, and the state before it."""
        shelf = self.shelves[state.machine]
        c, level = state.last, state.level
        if c == shelf.spill:
            level -= int(shelf.taken[q - 1])
            begins = [(self._origin(q - 1, state, level), q - 1)]
        else:
            ends = shelf.segment[c][:q, q]
            first = int(np.argmax(np.isfinite(ends)))
            rows = [(self._origin(p, state, level), p) for p in range(first, q)]
            begins = [
                ((float(self._join(np.array(v), float(ends[p]))), before), p)
                for (v, before), p in rows
            ]
        (_, before), p = min(begins, key=lambda row: row[0][0])
        return p, before

    def _origin(self, p: int, state: CountState, level: int) -> tuple[float, CountState | None]:
        """The best way to begin at `p` what `state` ends with, as in `_begin`."""
        a, c = state.machine, state.last
        shelf = self.shelves[a]
        options: list[tuple[float, CountState | None]] = [(math.inf, None)]
        for s, wait in self._sources(p, a, state.used, c):
            used, last = shelf.states[s]
            value = float(shelf.values[p, s, state.node, level]) + wait
            options.append((value, CountState(a, state.node, used, last, level)))
        if level == 0 and sum(state.used) == (0 if c == shelf.spill else 1):
            if p == 0 and state.node == 0:
                options.append((0.0, None))
            for value, before in self._openers(p, a, c) if p else ():
                opened = before.node + 1 if before.machine == a else 0
                if opened == state.node:
                    options.append((value, before))
        return min(options, key=lambda option: option[0])
