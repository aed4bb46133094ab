"""Tables of `milp_split` by hand: what it does with them, in any order, against an optimum."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

from tvm_hetero.check import verified
from tvm_hetero.errors import HeteroError
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.solvers.lists.partial_schedule import Solution, of_schedule, solution
from tvm_hetero.solvers.milp_split import solver as split
from tvm_hetero.solvers.milp_split import tighten
from tvm_hetero.solvers.milp_split.chain_table import TableChain
from tvm_hetero.solvers.milp_split.module_table import ModuleTable
from tvm_hetero.solvers.timing.timing import to_schedule
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import cut_is_exact, modules_of
from tvm_hetero.views.symmetry import find_symmetry

_EQUAL = 1e-6
# Work of one step, and of the call in the end.
_WORK, _ALL_WORK = 0.08, 0.4
_KNOWN_BY = ("heft", "greedy", "milp-split")


class Tables:
    """Those of a problem, and what is to be held against them.

    Parameters
    ----------
    best : the optimum, or a value that is reached.
    """

    def __init__(self, problem: Problem, best: float, options: Options, rng: random.Random) -> None:
        self.problem, self.best, self.options, self.rng = problem, best, options, rng
        self.instance = Instance(problem)
        self.chain = TableChain(self.instance, modules_of(self.instance))

    @property
    def steps(self) -> list[Callable[[], Iterable[str]]]:
        """What can be done with them."""
        return [self.take, self.bound_together, self.squeeze, self.improve]

    @property
    def each(self) -> list[ModuleTable]:
        """Every table once."""
        return list({id(table): table for table in self.chain.tables}.values())

    def take(self) -> Iterable[str]:
        """Keep a schedule that random symmetries carried elsewhere."""
        schedule = solve(self.problem, self.rng.choice(_KNOWN_BY), self.options)
        known = of_schedule(self.instance, self._carried(schedule))
        if known is None:
            return
        self.chain.take(known)
        value, _ = self.chain.best(low=False)
        if value > known.value * (1 + _EQUAL):
            yield f"a schedule of {known.value} is kept as {value}"

    def bound_together(self) -> Iterable[str]:
        """All entries of each table at once, if that was not done."""
        for table in self.each:
            if table.searches < 1 and len(table.entries) > 1:
                table.improve(self.options, _budget(_WORK))
        return ()

    def squeeze(self) -> Iterable[str]:
        """Modules as a whole."""
        tighten.squeeze(self.chain.tables, self.options, _budget(_WORK))
        return ()

    def improve(self) -> Iterable[str]:
        """Entry by entry, a level each."""
        for table in self.each:
            for entry in table.entries.values():
                entry.improve(self.options, _budget(_WORK))
        return ()

    def faults(self) -> Iterable[str]:
        """Bounds that are too high."""
        low, _ = self.chain.best(low=True)
        if low > self.best * (1 + _EQUAL):
            yield f"tables bound by {low}, {self.best} is reached"
        for table in self.each:
            for ends, entry in table.entries.items():
                if entry.best is not None and entry.low > entry.value * (1 + _EQUAL):
                    yield f"entry {ends} bounds by {entry.low}, its value is {entry.value}"

    def finish(self) -> Iterable[str]:
        """Solve with these tables, and join them."""
        noted = replace(self.options, notes={self.instance: self.chain})
        answer = split.solve_instance(self.instance, noted, _budget(_ALL_WORK))
        if answer.low > self.best * (1 + _EQUAL):
            yield f"with these tables the bound is {answer.low}, {self.best} is reached"
        value, _ = self.chain.best(low=False)
        joined = solution(self.instance, *self.chain.join())
        if joined.value > value * (1 + _EQUAL):
            yield f"tables of {value} are joined to {joined.value}"
        for found in (answer.best, joined):
            self._judge(found)

    def _judge(self, found: Solution) -> None:
        executions, copies = to_schedule(found.plan, [start for start, _ in found.times])
        verified(self.problem, make_schedule(self.problem, "tables", executions, copies))

    def _carried(self, schedule: Schedule) -> Schedule:
        names = self.problem.platform.names
        moves = list(find_symmetry(self.problem).generators())
        place = list(range(len(names)))
        for move in self.rng.choices(moves, k=self.rng.randint(0, 4)) if moves else ():
            place = [move[at] for at in place]
        to = {name: names[at] for name, at in zip(names, place, strict=True)}
        executions = [replace(each, device=to[each.device]) for each in schedule.executions]
        copies = [replace(each, src=to[each.src], dst=to[each.dst]) for each in schedule.copies]
        moved = replace(schedule, executions=tuple(executions), copies=tuple(copies))
        return verified(self.problem, moved)


def faults_of_tables(
    problem: Problem, best: float, options: Options, rng: random.Random
) -> list[str]:
    """What is wrong after some steps in a random order; nothing where these tables say nothing:
    cutting is not exact, or it is not latency that is asked for."""
    if problem.objective.kind != "latency" or not cut_is_exact(Instance(problem)):
        return []
    tables, found = Tables(problem, best, options, rng), list[str]()
    done = []
    try:
        for step in rng.sample(tables.steps, rng.randint(1, 4)):
            done.append(step.__name__)
            found += [*step(), *tables.faults()]
        found += tables.finish()
    except HeteroError as error:
        found.append(str(error))
    return [f"tables after {', '.join(done)}: {text}" for text in found]


def _budget(work: float) -> CpsatBudget:
    return CpsatBudget(work, math.inf)
