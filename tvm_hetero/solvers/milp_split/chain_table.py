"""The tables of all modules, and the best chain through them (see `solver`).

    M(i, j)   the least time from the end of a module's first part on i to the end of its last on j
    D_b(j)  = min over i of D_a(i) + M(i, j)            -> `TableChain.best`

Entries are solved in rounds                                               -> `TableChain.close`:
a round takes the open entries on the chain that is best by bounds (equal modules share them), or,
where all of those are closed or tried, on the chain that is best by values. All of a round can be
solved at once, on any number of threads: what each may spend is settled before. When what is cheap
has been tried, large modules are squeezed as one problem each                      -> `tighten`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tvm_hetero.solvers.core.cpsat_run import LEAST_CALL, CpsatBudget
from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.lists.partial_schedule import Solution, solution
from tvm_hetero.solvers.milp_split.join import Joined, join_modules, moved, part_of
from tvm_hetero.solvers.milp_split.module_bounds import CLOSED
from tvm_hetero.solvers.milp_split.module_table import Ends, ModuleTable, TableJob
from tvm_hetero.solvers.milp_split.tighten import squeeze
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import Module, Piece, Signature, canonical, signature
from tvm_hetero.views.symmetry import find_symmetry

Span = tuple[float, float]
# The level from which on rounds are dear, so that large modules are squeezed before.
_DEAR = 2


class TableChain:
    """The modules of an instance, in order.

    Attributes
    ----------
    pieces : the parts of each module (numbers of the whole instance) in canonical order.
    tables : the entries of each; equal modules have one table.

    Raises
    ------
    SolverError
        When it is made: if the time is up (`ends`) before every entry has its first bound.
    """

    def __init__(
        self, instance: Instance, modules: Sequence[Module], ends: Deadline | None = None
    ) -> None:
        self.instance, self.modules = instance, modules
        self.parts: list[list[int]] = []
        self.tables: list[ModuleTable] = []
        known: dict[Signature, ModuleTable] = {}
        for module in modules:
            order = canonical(instance, module.parts)
            piece = Piece(instance, order)
            key = signature(piece, (module.first is None, module.last is None))
            if key not in known:
                known[key] = ModuleTable.of(piece, module, ends)
            self.parts.append(order)
            self.tables.append(known[key])

    @property
    def distinct(self) -> int:
        """How many different tables there are."""
        return len({id(table) for table in self.tables})

    def best(self, *, low: bool) -> tuple[float, list[Ends]]:
        """D of the last module by bounds or by values, and the entries that give it."""
        reached: dict[int, float] = {i: 0.0 for i, _ in self.tables[0].entries}
        back: list[dict[int, int]] = []
        for table in self.tables:
            after: dict[int, float] = {}
            come: dict[int, int] = {}
            for (i, j), entry in table.entries.items():
                total = reached.get(i, math.inf) + (entry.low if low else entry.value)
                if total < after.get(j, math.inf):
                    after[j], come[j] = total, i
            reached = after
            back.append(come)
        if not reached:
            return math.inf, []
        j = min(reached, key=lambda d: (reached[d], d))
        best, path = reached[j], []
        for come in reversed(back):
            path.append((come[j], j))
            j = come[j]
        return best, path[::-1]

    def go_on(self) -> None:
        """Begin another call with what is known."""
        for table in {id(table): table for table in self.tables}.values():
            table.go_on()

    def take(self, known: Solution) -> None:
        """Keep what a solution of the whole does in each module, where that is better."""
        for module, parts, table in zip(self.modules, self.parts, self.tables, strict=True):
            table.take(*part_of(self.instance, known, module, parts))

    def close(self, options: Options, budget: CpsatBudget, most: float = math.inf) -> None:
        """Solve entries until the best chain is proven, all are tried, or work is used up.

        `most` is a value that is known already: bounds that reach it end the search.
        """
        work, squeezed = budget.work, False
        with ThreadPoolExecutor(options.workers) as pool:
            while True:
                low, by_low = self.best(low=True)
                high, by_value = self.best(low=False)
                known = min(high, most)
                if high < math.inf and known - low <= CLOSED * known:
                    return
                # The first rounds give every module of the chain a schedule, budget or not.
                jobs = self._open(by_low) or self._open(by_value)
                if not jobs or (high < math.inf and budget.exhausted()):
                    return
                if not squeezed and jobs[0].level >= _DEAR:
                    squeezed = True
                    squeeze(self.tables, options, budget, _spread(options, pool), most)
                    continue
                self._improve(jobs, options, budget, work, pool)

    def _open(self, path: Sequence[Ends]) -> list[TableJob]:
        """What is to be done for a chain: the jobs that were tried least, each once."""
        jobs: dict[int, TableJob] = {}
        for table, ends in zip(self.tables, path, strict=False):
            if table.entries[ends].open:
                job = table.job(ends)
                jobs[id(job)] = job
        least = min((job.level for job in jobs.values()), default=0)
        return [job for job in jobs.values() if job.level == least]

    def _improve(
        self,
        jobs: Sequence[TableJob],
        options: Options,
        budget: CpsatBudget,
        work: float,
        pool: ThreadPoolExecutor,
    ) -> None:
        """One round: every job gets what it wishes, or its share of what is left."""
        share = max(0.0, budget.work) / len(jobs)
        if jobs[0].level == 1:
            # Small modules are closed with a fraction of what a call may take at least.
            share = max(share, LEAST_CALL)
        budgets = [CpsatBudget(min(job.wish(work), share), budget.deadline) for job in jobs]
        granted = [own.work for own in budgets]
        run = _spread(options, pool)
        list(run(lambda job, own: job.improve(options, own), jobs, budgets))
        budget.work -= math.fsum(g - own.work for g, own in zip(granted, budgets, strict=True))

    def join(self) -> Joined:
        """The best chain's solutions one after the other: devices, times of parts and of hops.

        Where entries are those of classes of devices, a symmetry carries each solution to where the
        one before it ended.
        """
        _, path = self.best(low=False)
        steps: list[tuple[Module, list[int], Solution]] = []
        end = -1
        for module, parts, table, ends in zip(
            self.modules, self.parts, self.tables, path, strict=True
        ):
            found = table.entries[ends].best
            assert found is not None, "the best chain has values"
            if table.first is not None:
                found = _carried(table, found, end)
            end = -1 if table.last is None else found.placement[table.last]
            steps.append((module, parts, found))
        return join_modules(self.instance, steps)


def _carried(table: ModuleTable, found: Solution, device: int) -> Solution:
    """A solution with its first part on `device`, which is of the same class."""
    assert table.first is not None, "where there is none, there is nothing to carry"
    here = found.placement[table.first]
    if here == device:
        return found
    move = find_symmetry(table.piece.problem).carry(here, device)
    placement, hops = moved(found.placement, found.hops, move)
    return solution(table.anywhere, placement, found.times[: len(placement)], hops)


def _spread(options: Options, pool: ThreadPoolExecutor) -> Callable[..., Iterable[object]]:
    """How a round's jobs are done: one after the other, or all at once."""
    return map if options.workers == 1 else pool.map
