"""The table of one module: its entries, and what can be learned of all of them at once.

An entry begins as a bound alone, the critical path of its pinned piece. Where the module is large
and has several entries, proving one of them leaves the others, which are much alike. So first
there is one search for all together: the ends are free, at prices that make the best known values
of all entries alike                                                       -> `ModuleTable.prices`

    a_i = V - min over j of V(i, j)           with V(i, j) the values, V the least of them
    b_j = V - min over i of (V(i, j) + a_i)

and the bound L that it proves raises all: M(i, j) >= L - a_i - b_j (see `module_cpsat`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tvm_hetero.bounds.latency.critical_path import critical_path
from tvm_hetero.bounds.latency.heads_tails import heads_and_tails
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.deadline import Deadline, check_time
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.partial_schedule import solution
from tvm_hetero.solvers.milp_split.module_bounds import BoundEntry
from tvm_hetero.solvers.milp_split.module_cpsat import Prices, search, too_large_to_prove
from tvm_hetero.views.modularity import Module, Piece

Ends = tuple[int, int]
# A bound that was rounded down in its sums.
_ROUNDING = 1 - 1e-12
# Parts from which on entries are bounded together; fewer are closed one by one in no time.
_TOGETHER = 16
# For every search for all: how much of the model is linear, and the part of the call's work.
_SEARCHES = ((1, 0.05),)
# The gap of an entry above which bounding all of them goes before.
_WIDE = 0.02


class TableJob(Protocol):
    """Something that a round can do."""

    level: int

    def wish(self, work: float) -> float:
        """What it would like to spend of a call that began with `work`."""

    def improve(self, options: Options, budget: CpsatBudget) -> None:
        """Do it."""


@dataclass
class ModuleTable:
    """A module's entries by the devices of its ends (-1: there is no end).

    Attributes
    ----------
    piece : the module with both ends free to be anywhere; its first part takes no time.
    level : what a round compares jobs by; a search for all comes with the first large ones.
    searches : how many searches for all entries at once there were.
    """

    piece: Piece
    entries: dict[Ends, BoundEntry]
    first: int | None
    last: int | None
    level: int = 2
    searches: int = 0

    @classmethod
    def of(cls, piece: Piece, module: Module, ends: Deadline | None = None) -> ModuleTable:
        """The table of a module whose parts are those of `piece`.

        Raises
        ------
        SolverError
            If the time is up: on a hundred devices an entry's bound takes a tenth of a second.
        """
        first = None if module.first is None else 0
        last = None if module.last is None else len(piece) - 1
        free = piece.pinned({}, [] if first is None else [first])
        entries: dict[Ends, BoundEntry] = {}
        for i in (-1,) if first is None else piece.devices[first]:
            for j in (-1,) if last is None else piece.devices[last]:
                check_time(ends, "milp-split", 0, len(piece))
                places = {p: d for p, d in ((first, i), (last, j)) if p is not None}
                pinned = free.pinned(places)
                entries[i, j] = BoundEntry(pinned, entry_bound(pinned))
        return cls(free, entries, first, last)

    def job(self, ends: Ends) -> TableJob:
        """What to do next where the entry of `ends` is open.

        Its first two levels are cheap. After them all entries are bounded together for as long
        as that leaves a gap that is worth it.
        """
        entry = self.entries[ends]
        if len(self.entries) == 1 or self.searches >= len(_SEARCHES):
            return entry
        if len(self.piece) < _TOGETHER or too_large_to_prove(self.piece):
            return entry
        wide = entry.value - entry.low > _WIDE * entry.value
        return self if entry.level >= 2 and wide else entry

    def wish(self, work: float) -> float:
        """What the search for all would like to spend of a call that began with `work`."""
        return _SEARCHES[self.searches][1] * work

    def improve(self, options: Options, budget: CpsatBudget) -> None:
        """Bound all entries at once."""
        linear, _ = _SEARCHES[self.searches]
        self.searches += 1
        for entry in self.entries.values():
            if entry.best is None:
                entry.improve(options, budget)
        prices = self.prices()
        ends = min(self.entries, key=lambda e: (self.entries[e].value, e))
        best = self.entries[ends].best
        assert best is not None, "every entry has a list schedule"
        found, bound = search(
            self.piece, best, options, budget, linear=linear, prove=True, prices=prices
        )
        for own, entry in self.entries.items():
            low = bound - self._paid(own, prices)
            entry.low = max(entry.low, min(low * _ROUNDING, entry.value))
        if found is not None:
            i, j = (-1 if p is None else found.placement[p] for p in (self.first, self.last))
            spans = found.times[: len(self.piece)]
            entry = self.entries[i, j]
            entry.take(solution(entry.piece, found.placement, spans, found.hops))

    def prices(self) -> Prices:
        """Prices of the ends that make the values alike (see the head of this file)."""
        value = {ends: entry.value for ends, entry in self.entries.items()}
        least = min(value.values())
        rows, columns = sorted({i for i, _ in value}), sorted({j for _, j in value})
        first = {i: least - min(value[i, j] for j in columns) for i in rows}
        last = {j: least - min(value[i, j] + first[i] for i in rows) for j in columns}
        prices: dict[tuple[int, int], float] = {}
        if self.first is not None:
            prices |= {(self.first, i): price for i, price in first.items()}
        if self.last is not None:
            prices |= {(self.last, j): price for j, price in last.items()}
        return prices

    def _paid(self, ends: Ends, prices: Prices) -> float:
        pairs = zip((self.first, self.last), ends, strict=True)
        return sum(prices[p, d] for p, d in pairs if p is not None)


def entry_bound(piece: Piece) -> float:
    """The critical path that knows devices and copies, s."""
    sizes = [flow.nbytes for flow in piece.tensors]
    head, tail = heads_and_tails(
        piece,
        lambda v, d: piece.seconds[v][d],
        lambda t: piece.copies(sizes[t]),
    )
    return critical_path(head, tail) * _ROUNDING
