"""Large modules squeezed: how far the chain can be below its value, module by module.

Let V(i, j) be the entries' values and p(m, i) a *potential*: about when, on a best chain, what
comes before module m has ended on i. Here it is the mean of the least time to get there and of
what the least time from there leaves of the whole                              -> `potentials`.
If, for a *slack* s_m of every module,

    M_m(i, j)  >=  p(m + 1, j) - p(m, i) - s_m                  for all i, j             (1)

then all chains sum up to at least the value less the sum of all s_m. Seen so the entries of a
module are one problem: with prices for the ends

    a_i = p(m, i) - min p(m, .)      b_j = max p(m + 1, .) - p(m + 1, j)

(1) says that the piece whose first part takes a_i more and whose last takes b_j more has no
schedule below max p(m + 1, .) - min p(m, .) - s_m, which `infeasibility` can tell. Ends that no
good chain has are dear and fall away in its windows.

Every module begins with the slack that its bounds leave. Round after round a smaller one is tried
in each: 3 %, 1.5 %, then none; where that fails, half way between what was shown and what was
not, with more work                                                             -> `Squeeze.aim`.
If a schedule turns up instead, an entry has a better value, and the potentials change.
Bounds of entries are raised by what was shown, whatever the potentials are worth.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.milp_split.infeasibility import LEAST, programs_work, refute
from tvm_hetero.solvers.milp_split.module_bounds import BoundEntry
from tvm_hetero.solvers.milp_split.module_cpsat import too_large_to_prove
from tvm_hetero.solvers.milp_split.module_table import ModuleTable
from tvm_hetero.views.modularity import Piece

Potential = dict[int, float]
# Parts from which on a module is squeezed; smaller ones are closed one entry after the other.
_LARGE = 16
# Slacks that are tried first, as parts of a module's value.
_AIMS = (0.03, 0.015, LEAST)
# Slacks between which nothing is tried any more.
_NEAR = 0.001
# What programs may take of the call's work for a module to be squeezed at all, what CP-SAT may take
# for one attempt, and what all attempts may take.
_PROGRAMS, _SEARCH, _ALL = 0.12, 0.1, 0.9
# A bound that was rounded down in its sums.
_ROUNDING = 1 - 1e-12


@dataclass
class Squeeze:
    """A module's table, what its programs take, and what could not be shown.

    Attributes
    ----------
    failed : the largest part of the value that was not shown to be enough; -1 for none.
    tries : how often it was so.
    """

    table: ModuleTable
    programs: float
    failed: float = -1.0
    tries: int = 0

    def aim(self, slack: float) -> float | None:
        """What slack to try, both as parts of the value; None if nothing is worth it."""
        if slack <= 2 * LEAST:
            return None
        if self.failed < 0:
            return next((aim for aim in _AIMS if aim < 0.7 * slack), LEAST)
        return (slack + self.failed) / 2 if slack - self.failed > _NEAR else None

    def wish(self, work: float) -> float:
        """What an attempt would like to spend of a call that began with `work`."""
        return self.programs + _SEARCH * work * (1 << self.tries)

    def attempt(
        self, ends: tuple[Potential, Potential], aim: float, options: Options, budget: CpsatBudget
    ) -> None:
        """Try to show that a slack of `aim` is enough between two potentials."""
        table, (before, after) = self.table, ends
        first = {i: p - min(before.values()) for i, p in before.items()}
        last = {j: max(after.values()) - p for j, p in after.items()}
        limit = (max(after.values()) - min(before.values())) * (1 - aim)
        piece = add_prices(table.piece, table.first, table.by_device(first))
        piece = add_prices(piece, table.last, table.by_device(last))
        # By turns without and with linear programs: either shows what the other does not.
        verdict = refute(piece, limit, options, budget, linear=self.tries % 2)
        if verdict.refuted:
            for (i, j), entry in table.entries.items():
                low = limit - first.get(i, math.inf) - last.get(j, math.inf)
                entry.low = max(entry.low, min(low * _ROUNDING, entry.value))
        elif verdict.found is not None:
            found = verdict.found
            if not table.take(found.placement, found.times[: len(piece)], found.hops):
                self._fail(aim)
        else:
            self._fail(aim)

    def _fail(self, aim: float) -> None:
        self.failed = max(self.failed, aim)
        self.tries += 1


def squeeze(
    tables: Sequence[ModuleTable],
    options: Options,
    budget: CpsatBudget,
    spread: Callable[..., Iterable[object]] = map,
    most: float = math.inf,
) -> None:
    """Raise the bounds of large modules' entries (and find better values), within the budget.

    Parameters
    ----------
    tables : those of the chain's modules, in order; equal modules have one.
    spread : how attempts of one round are made: `map`, or that of a pool.
    most : a value of the whole that is known otherwise, s.
    """
    work, limit = budget.work, budget.work * (1 - _ALL)
    modules = _large(tables, work)
    for own in modules.values():
        for entry in own.table.entries.values():
            if entry.level == 0 and budget.work > limit:
                entry.improve(options, budget)
    while modules and not budget.exhausted():
        jobs = _round(tables, modules, most)
        share = (budget.work - limit) / max(1, len(jobs))
        if not jobs or share < max(own.programs for own, *_ in jobs):
            return
        budgets = [CpsatBudget(min(own.wish(work), share), budget.deadline) for own, *_ in jobs]
        granted = [one.work for one in budgets]
        list(spread(lambda job, one: job[0].attempt(*job[1:], options, one), jobs, budgets))
        budget.work -= math.fsum(g - one.work for g, one in zip(granted, budgets, strict=True))


def _round(
    tables: Sequence[ModuleTable], modules: dict[int, Squeeze], most: float
) -> list[tuple[Squeeze, tuple[Potential, Potential], float]]:
    """Modules with their potentials and aims: those that failed least, where one is worth it."""
    spots = potentials(tables, most)
    jobs = []
    for m, own in modules.items():
        ends = spots[m], spots[m + 1]
        aim = own.aim(slack_of(own.table, ends))
        if aim is not None:
            jobs.append((own, ends, aim))
    least = min((own.tries for own, *_ in jobs), default=0)
    return [job for job in jobs if job[0].tries == least]


def _large(tables: Sequence[ModuleTable], work: float) -> dict[int, Squeeze]:
    """By the place of the first of its kind: modules that are worth it."""
    found: dict[int, Squeeze] = {}
    seen: set[int] = set()
    for m, table in enumerate(tables):
        if id(table) in seen or len(table.piece) < _LARGE or too_large_to_prove(table.piece):
            continue
        seen.add(id(table))
        # One entry by itself is bounded as well by the search for its value.
        if len(table.entries) == 1 or all(entry.closed for entry in table.entries.values()):
            continue
        programs = programs_work(table.piece)
        if programs <= _PROGRAMS * work:
            found[m] = Squeeze(table, programs)
    return found


def slack_of(table: ModuleTable, ends: tuple[Potential, Potential]) -> float:
    """What is left of (1), as a part of the module's value."""
    before, after = ends
    most = max(
        after[j] - before[i] - entry.low
        for (i, j), entry in table.entries.items()
        if i in before and j in after
    )
    value = max(after.values()) - min(before.values())
    return most / value if value > 0 else 0.0


def potentials(tables: Sequence[ModuleTable], most: float = math.inf) -> list[Potential]:
    """p(m, .) for every module, and one more for what is after the last (see above).

    Where the entries' values add up to more than `most`, all are as much smaller: what is not
    below the known value need not be shown.
    """
    there = [dict.fromkeys((i for i, _ in tables[0].entries), 0.0)]
    for table in tables:
        there.append(_step(there[-1], {ends: _value(e) for ends, e in table.entries.items()}))
    rest = [dict.fromkeys(there[-1], 0.0)]
    for table in reversed(tables):
        entries = {(j, i): _value(e) for (i, j), e in table.entries.items()}
        rest.append(_step(rest[-1], entries))
    whole = min(there[-1].values())
    scale = min(1.0, most / whole) / 2 if whole > 0 else 0.5
    pairs = zip(there, reversed(rest), strict=True)
    return [{d: scale * (a[d] + whole - b[d]) for d in sorted(a) if d in b} for a, b in pairs]


def _step(reached: Potential, entries: dict[tuple[int, int], float]) -> Potential:
    """The least sums behind the entries' other ends."""
    after: Potential = {}
    for (i, j), value in entries.items():
        if i in reached:
            after[j] = min(after.get(j, math.inf), reached[i] + value)
    return after


def _value(entry: BoundEntry) -> float:
    """An entry's value; its bound where no one has looked for one yet."""
    return entry.value if entry.value < math.inf else entry.low


def add_prices(piece: Piece, part: int | None, prices: Potential) -> Piece:
    """The piece with a part that takes so much longer on each device; others are forbidden."""
    if part is None:
        return piece
    other = copy.copy(piece)
    seconds, devices = list(piece.seconds), list(piece.devices)
    row = enumerate(seconds[part])
    seconds[part] = tuple(s + prices.get(d, math.inf) for d, s in row)
    devices[part] = tuple(d for d in devices[part] if d in prices)
    other.seconds, other.devices = tuple(seconds), tuple(devices)
    return other
