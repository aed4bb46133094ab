"""Energy by modules: every placement of a module with its energy and its seconds.

Let D be the devices that run anything, w(d) and i(d) the watts of d while busy and idle. A schedule
of length T takes

    energy  =  sum over d in D of (w(d) - i(d)) busy(d)  +  sum over d in D of i(d)  x  T

and both busy(d) and T are sums over the modules (`tvm_hetero.views.modularity`). So for a set D a
chain takes one column of each module, ends meeting: a placement on D with its busy times and its
seconds; which chain, `energy` says.

The seconds of a column are a bound first (`bounds.module_choices`). Where a chain that is wanted
takes it, it is scheduled, by a list, annealing and CP-SAT (`module_bounds`), which mostly meets the
bound and else raises it                                                    -> `Times.schedule`.
The schedules one after the other are one of the whole                -> `EnergyChain.schedule`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm_hetero.bounds.core.module_choices import Choices, choices_of, key_of, size_of
from tvm_hetero.bounds.throughput.module_columns import (
    MOST_TOGETHER,
    listable,
    loads_of,
    resources_of,
)
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.lists.partial_schedule import Solution, solution
from tvm_hetero.solvers.milp_split.join import joined
from tvm_hetero.solvers.milp_split.module_bounds import BoundEntry
from tvm_hetero.solvers.timing.timing import to_schedule
from tvm_hetero.views.arrays import Array
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import Module, Piece, modules_of

# Levels of `BoundEntry` that a placement of a module is worth.
_LEVELS = 3


@dataclass(eq=False)
class Times:
    """The columns of one kind of modules; seconds are bounds that rise.

    Attributes
    ----------
    busy : (n, devices), s.
    known : schedules of single columns.
    """

    piece: Piece
    first: bool
    choices: Choices
    busy: Array
    known: dict[int, Solution] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seconds = self.choices.seconds.copy()

    def schedule(self, row: int, options: Options, budget: CpsatBudget) -> bool:
        """Schedule a column if that has not been done; whether its bound has risen."""
        if row in self.known:
            return False
        free = self.piece.pinned({}, [0] if self.first else [])
        places = self.choices.places[row].tolist()
        before = float(self.seconds[row])
        entry = BoundEntry(free.pinned(dict(enumerate(places))), before)
        while entry.best is None or (entry.open and entry.level < _LEVELS):
            own = CpsatBudget(entry.wish(budget.work), budget.deadline)
            granted = own.work
            entry.improve(options, own)
            budget.work -= granted - own.work
        self.known[row] = entry.best
        self.seconds[row] = max(before, entry.low)
        return bool(entry.low > before)


@dataclass(frozen=True)
class EnergyChain:
    """The modules of an instance in order, each with its columns."""

    instance: Instance
    modules: list[Module]
    parts: list[tuple[int, ...]]
    tables: list[Times]

    def schedule(self, rows: Sequence[int], seed: int) -> Schedule:
        """The schedules of columns one after the other."""
        found = (table.known[row] for table, row in zip(self.tables, rows, strict=True))
        steps = zip(self.modules, self.parts, found, strict=True)
        best = solution(self.instance, *joined(self.instance, steps))
        executions, copies = to_schedule(best.plan, [s for s, _ in best.times])
        return make_schedule(self.instance.problem, "milp-split", executions, copies, seed=seed)


def energy_chain(instance: Instance) -> EnergyChain | None:
    """The chain of an instance whose parts run whole; None where there is too much to list."""
    modules = modules_of(instance)
    if not modules or not listable(instance):
        return None
    known: dict[object, Times] = {}
    parts, tables, total, resources = [], [], 0, resources_of(instance)
    for module in modules:
        piece, key = key_of(instance, module)
        if key not in known:
            total += size_of(instance, module)
            if total > MOST_TOGETHER:
                return None
            choices = choices_of(instance, module, piece, [], 0.0)
            first = module.first is not None
            load, _ = loads_of(instance, piece, choices.places, first, resources)
            known[key] = Times(piece, first, choices, load[:, : len(instance.names)])
        parts.append(piece.parts)
        tables.append(known[key])
    return EnergyChain(instance, modules, parts, tables)
