"""The table of one module: its entries, and what can be learned of all of them at once.

An entry begins as a bound alone, the critical path of its pinned piece. Where the module is large
and has several entries, proving one of them leaves the others, which are much alike. So first
there is one search for all together: the ends are free, at prices that make the best known values
of all entries alike                                                       -> `ModuleTable.prices`

    a_i = V - min over j of V(i, j)           with V(i, j) the values, V the least of them
    b_j = V - min over i of (V(i, j) + a_i)

and the bound L that it proves raises all: M(i, j) >= L - a_i - b_j (see `module_cpsat`).

Devices that are alike (eight GPUs, many teams of cores). The ends of a module are only looked at by
their *class*, the devices that symmetries carry into each other: M(I, J) is the least over all i in
I and j in J. That loses nothing: what comes before i takes as long as what comes before any other
of I, since a symmetry carries the one schedule into the other; so does `chain_table` when it joins.
For the same reason the first part is held on the first device of its class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tvm_hetero.bounds.latency.critical_path import critical_path
from tvm_hetero.bounds.latency.heads_tails import heads_and_tails
from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.deadline import Deadline, time_is_up
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.partial_schedule import HopTimes, Span, solution
from tvm_hetero.solvers.milp_split.join import moved
from tvm_hetero.solvers.milp_split.module_bounds import BoundEntry
from tvm_hetero.solvers.milp_split.module_cpsat import Prices, search, too_large_to_prove
from tvm_hetero.solvers.milp_split.width_model import by_class, helps_by_width, search_widths
from tvm_hetero.views.modularity import Module, Piece
from tvm_hetero.views.symmetry import find_symmetry

Ends = tuple[int, int]
# A bound that was rounded down in its sums.
_ROUNDING = 1 - 1e-12
# Parts from which on entries are bounded together; fewer are closed one by one in no time.
_TOGETHER = 16
# For every search for all: how much of the model is linear, and the part of the call's work.
_SEARCHES = ((1, 0.05),)
# The same of a search by widths; the level of a search by devices.
_ALL_WIDTHS, _AFTER = 0.1, 2
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
    """A module's entries by the classes of its ends' devices (-1: there is no end).

    Attributes
    ----------
    kinds : for each device its class, by its first device.
    piece : the module with its ends free to be in any class; its first part takes no time.
    anywhere : the same with its first part on any device.
    level : what a round compares jobs by; a search for all comes with the first large ones.
    searches : how many searches for all entries at once there were.
    by_width : whether they are by widths (`width_model`), as soon as there are schedules.
    """

    piece: Piece
    anywhere: Piece
    entries: dict[Ends, BoundEntry]
    first: int | None
    last: int | None
    kinds: Sequence[int]
    level: int = 2
    searches: int = 0
    by_width: bool = False

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
        anywhere = piece.pinned({}, [] if first is None else [first])
        kinds = find_symmetry(piece.problem).types()
        free = anywhere
        if first is not None:
            free = anywhere.held({first: list(by_class(piece.devices[first], kinds))})
        entries: dict[Ends, BoundEntry] = {}
        for i, here in _ends_by_class(free, first, kinds).items():
            for j, there in _ends_by_class(free, last, kinds).items():
                if time_is_up(ends):
                    raise SolverError(
                        "milp-split: the time is up before every module has a bound; raise the "
                        "time limit"
                    )
                places = {p: few for p, few in ((first, here), (last, there)) if p is not None}
                held = free.held(places)
                entries[i, j] = BoundEntry(held, entry_bound(held), kinds=kinds)
        by_width = helps_by_width(free, kinds)
        level = 0 if by_width else _AFTER
        return cls(free, anywhere, entries, first, last, kinds, level=level, by_width=by_width)

    def ends_of(self, placement: Sequence[int]) -> Ends:
        """The entry that a solution is one of."""
        first, last = (
            -1 if p is None else self.kinds[placement[p]] for p in (self.first, self.last)
        )
        return first, last

    def take(self, placement: Sequence[int], spans: Sequence[Span], hops: HopTimes) -> bool:
        """Keep a solution of `anywhere` if its entry has no better one; whether that is so."""
        entry = self.entries[self.ends_of(placement)]
        if self.first is not None:
            here = placement[self.first]
            move = find_symmetry(self.piece.problem).carry(here, self.kinds[here])
            placement, hops = moved(placement, hops, move)
        value = entry.value
        entry.take(solution(entry.piece, placement, spans, hops))
        return entry.value < value

    def by_device(self, prices: Mapping[int, float]) -> dict[int, float]:
        """Prices of classes as those of all their devices."""
        return {d: prices[kind] for d, kind in enumerate(self.kinds) if kind in prices}

    def job(self, ends: Ends) -> TableJob:
        """What to do next where the entry of `ends` is open.

        Its first two levels are cheap. After them all entries are bounded together for as long
        as that leaves a gap that is worth it.
        """
        entry = self.entries[ends]
        if len(self.entries) == 1 or self.searches >= len(_SEARCHES):
            return entry
        if self.by_width:
            # Of many ends each would have to be bounded by itself, so this comes first.
            return self
        if len(self.piece) < _TOGETHER or too_large_to_prove(self.piece):
            return entry
        wide = entry.value - entry.low > _WIDE * entry.value
        return self if entry.level >= 2 and wide else entry

    def wish(self, work: float) -> float:
        """What the search for all would like to spend of a call that began with `work`."""
        return (_ALL_WIDTHS if self.by_width else _SEARCHES[self.searches][1]) * work

    def improve(self, options: Options, budget: CpsatBudget) -> None:
        """Bound all entries at once."""
        linear, _ = _SEARCHES[self.searches]
        self.searches += 1
        likely = [min(self.entries.values(), key=lambda e: e.low)]
        for entry in likely if self.by_width else self.entries.values():
            if entry.level == 0:
                entry.improve(options, budget)
        prices = self.prices()
        ends = min(self.entries, key=lambda e: (self.entries[e].value, e))
        best = self.entries[ends].best
        assert best is not None, "every entry, or the likely one, has a list schedule"
        if self.by_width:
            found, bound = search_widths(self.piece, self.kinds, best, options, budget, prices)
        else:
            found, bound = search(
                self.piece, best, options, budget, linear=linear, prove=True, prices=prices
            )
        for own, entry in self.entries.items():
            low = bound - self._paid(own, prices)
            entry.low = max(entry.low, min(low * _ROUNDING, entry.value))
        if found is not None:
            self.take(found.placement, found.times[: len(self.piece)], found.hops)

    def go_on(self) -> None:
        """Begin another call with what is known."""
        self.searches, self.level = 0, 0 if self.by_width else _AFTER
        for entry in self.entries.values():
            entry.go_on()

    def prices(self) -> Prices:
        """Prices of the ends that make the values alike (see the head of this file)."""
        # Of many ends few have a schedule: their bounds say as well which are dear.
        value = {e: x.low if self.by_width else x.value for e, x in self.entries.items()}
        least = min(value.values())
        rows, columns = sorted({i for i, _ in value}), sorted({j for _, j in value})
        first = {i: least - min(value[i, j] for j in columns) for i in rows}
        last = {j: least - min(value[i, j] + first[i] for i in rows) for j in columns}
        prices: dict[tuple[int, int], float] = {}
        if self.first is not None:
            prices |= {(self.first, i): price for i, price in self.by_device(first).items()}
        if self.last is not None:
            prices |= {(self.last, j): price for j, price in self.by_device(last).items()}
        return prices

    def _paid(self, ends: Ends, prices: Prices) -> float:
        pairs = zip((self.first, self.last), ends, strict=True)
        return sum(prices[p, d] for p, d in pairs if p is not None)


def _ends_by_class(piece: Piece, part: int | None, kinds: Sequence[int]) -> dict[int, list[int]]:
    """The classes on which a part can run, and their devices; -1 where there is no end."""
    return {-1: [-1]} if part is None else by_class(piece.devices[part], kinds)


def entry_bound(piece: Piece) -> float:
    """The critical path that knows devices and copies, s."""
    sizes = [flow.nbytes for flow in piece.tensors]
    head, tail = heads_and_tails(
        piece,
        lambda v, d: piece.seconds[v][d],
        lambda t: piece.copies(sizes[t]),
    )
    return critical_path(head, tail) * _ROUNDING
