"""Large neighbourhood search: most of a schedule is kept, CP-SAT finds the best for the rest.

P. Shaw: Using constraint programming and local search methods to solve vehicle routing problems,
CP 1998, doi:10.1007/3-540-49481-2_30; for schedules by time windows T. Carchrae, J. C. Beck,
Principles for the design of large neighborhood search, 2009, doi:10.1007/s10852-008-9100-2.

Let the parts be sorted by their starts: what lies before a *window* of positions keeps its times,
what lies behind keeps devices and order (and moves as a block), what is inside is scheduled again,
all of it or a *free* subset while the others in the window keep devices and order. Of the rest of
the schedule a window needs to know only

    release(v, d)   when all that v reads from before the window is on d
    ready(d)        when d has ended all that lies before
    rest(v, d)      what follows v if it runs on d: the longest chain of copies, parts behind and
                    their order on the devices

so a window's model does not grow with the graph                         -> `WindowModel`.
Windows lie around a random part of the critical path and are of three kinds: a stretch of time, a
stretch of time on two devices, a connected set                          ->
`NeighbourhoodSearch.free`. They grow while CP-SAT proves them within their work, and shrink while
it does not. Equal values are taken too: a schedule may have to change before it can improve.

Copies are mere delays here: not for platforms where they occupy devices or links.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tvm_hetero.solvers.core.cpsat_run import CpsatBudget, run
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.cpsat.window_model import WindowModel
from tvm_hetero.solvers.lists.partial_schedule import Solution, solution
from tvm_hetero.solvers.timing.orders import Delays, Order, Window
from tvm_hetero.views.instance import Instance

# Parts in the first window, in the smallest and in the largest.
_SIZES = (20, 8, 80)
# Work that one window may take; what building it costs, and finding it for each part of the graph.
_WINDOW_WORK = 0.15
_BUILD_WORK = 0.01
_PART_WORK = 5e-6
# Windows in a row without a better value after which the search ends.
_PATIENCE = 60


def improve_by_windows(
    instance: Instance, best: Solution, options: Options, budget: CpsatBudget, share: float
) -> Solution | None:
    """Improve a solution with a share of the work that is left; None if nothing better came."""
    search = NeighbourhoodSearch(instance, best, options)
    limit = budget.work * (1 - share)
    idle = 0
    while budget.work > limit and not budget.exhausted() and idle < _PATIENCE:
        idle = 0 if search.step(budget, limit) else idle + 1
    found = solution(instance, search.now.place, keys_of(search.now), {})
    return found if found.value < best.value else None


def keys_of(order: Order) -> list[tuple[float, float]]:
    """Keys that keep exactly this order (see `timing`): positions; hops come with their makers."""
    keys = [(0.0, 0.0)] * len(order.parts)
    for p, v in enumerate(order.parts):
        keys[v] = (float(p), p + 0.5)
    return keys


class NeighbourhoodSearch:
    """The schedule at hand, and what windows cost and gave."""

    def __init__(self, instance: Instance, best: Solution, options: Options) -> None:
        self.instance, self.options = instance, options
        self.random = random.Random(options.seed)
        self.size = _SIZES[0]
        self.delays = Delays(instance)
        position = {v: p for p, v in enumerate(instance.order)}
        starts = [s for s, _ in best.times]
        parts = sorted(range(len(instance)), key=lambda v: (starts[v], position[v]))
        self.now = self.delays.timed(parts, list(best.placement))
        self.tail = self.delays.tails(self.now)

    def step(self, budget: CpsatBudget, limit: float) -> bool:
        """Try one window; whether the makespan fell."""
        now, n = self.now, len(self.instance)
        window = self.choose()
        model = WindowModel(self.instance, self.delays, now, self.tail, window)
        allowed = CpsatBudget(min(_WINDOW_WORK, budget.work - limit), budget.deadline)
        budget.work -= allowed.work + _BUILD_WORK + _PART_WORK * n
        outcome = run(model.model, self.options, allowed, linear=0, quick=True)
        budget.work += allowed.work
        proven = allowed.work > 0
        self.size = min(_SIZES[2], self.size + 1) if proven else max(_SIZES[1], self.size - 2)
        if not outcome.found:
            return False
        found = model.read(outcome.solver.value)
        if found.makespan > now.makespan * (1 + 1e-12):
            return False
        better = found.makespan < now.makespan * (1 - 1e-9)
        self.now = found
        self.tail = self.delays.tails(found)
        return better

    def choose(self) -> Window:
        """A window around a random part of the critical path."""
        now, pick = self.now, self.random
        n = len(now.parts)
        critical = [
            p
            for p, v in enumerate(now.parts)
            if now.end[v] + self.tail[v] >= now.makespan * (1 - 1e-9)
        ]
        middle = pick.choice(critical)
        kind = pick.randrange(3)
        length = self.size if kind == 0 else 2 * self.size
        first = max(0, min(n - length, middle - pick.randrange(length)))
        stretch = now.parts[first : first + length]
        return Window(first, stretch, self.free(kind, stretch, now.parts[middle]))

    def free(self, kind: int, stretch: Sequence[int], middle: int) -> set[int]:
        """The parts of a window that get new places (see the head of this file)."""
        if kind == 0 or len(stretch) <= self.size:
            return set(stretch)
        if kind == 1:
            devices = sorted({self.now.place[v] for v in stretch})
            two = self.random.sample(devices, min(2, len(devices)))
            own = [v for v in stretch if self.now.place[v] in two]
            return set(own[: self.size] if len(own) > self.size else own)
        inside, found, edge = set(stretch), {middle}, [middle]
        while edge and len(found) < self.size:
            v = edge.pop(self.random.randrange(len(edge)))
            for w in self.delays.neighbours(v):
                if w in inside and w not in found and len(found) < self.size:
                    found.add(w)
                    edge.append(w)
        return found
