"""Energy by modules: for each set of devices the cheapest schedule within the limit.

A device costs while it idles, so which devices are used at all comes first: every set D of them is
looked at, those with the least bound first, until the best schedule that is known is not above
the least bound of all sets, which is the bound of the problem (for one element). Hops over devices
that run nothing are left out of bounds, never of values.

*Cost.* On D every second costs the same, so wanted is the least latency on D         -> `cost`

*Energy.* A chain of columns with energy e and seconds s (`energy_columns`), such that

    minimise  sum of e    subject to  sum of s  <=  limit

    prices    a price x of a second gives the bound  min of sum (e + x s)  -  x limit   -> `_price`
    labels    of the chains that are below a target, with two amounts, e and s          -> `probe`
    seconds   of the columns on the best of these are made exact; then labels again

Where a module has too many placements, or cutting is not exact, the whole graph goes to CP-SAT,
as does what is left open here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from tvm_hetero.problem.objective import ABSOLUTE_TOLERANCE
from tvm_hetero.problem.schedule import OPTIMAL_GAP, Schedule
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.core.score import within_limit
from tvm_hetero.solvers.milp_split.energy_columns import EnergyChain, Times
from tvm_hetero.solvers.milp_split.labels import WORK_A_SECOND, LabelSearch, LabelStep
from tvm_hetero.views.array_types import FloatArray, IntArray

# Devices up to which all their sets are looked at.
MOST_DEVICES = 5
# A sum of some thousand floats, in whichever order, is less than this off.
ROUNDING = 1 - 1e-11
# A target and a limit in units (see `lagrangian`), and by how much a limit may be exceeded.
_UNITS, _TOLERANCE = 1e12, 1e-9
# What a target is below the best value: what is then proven is optimal.
_BELOW = 1 - 0.1 * OPTIMAL_GAP
# Doublings and halvings of the price of a second.
_PRICES = 60
# Labels at one cut and device, the first, second, ... time; how often seconds are made exact.
_WIDTHS, _ROUNDS = (300, 3_000, 30_000), 40
# Ways that are made schedules of, for one probe.
_SCHEDULED = 3
# Work of labels for each second of the limit; what one probe may take of what is left.
_WORK, _PART = 0.5 * WORK_A_SECOND, 0.5


class OnDevices:
    """The columns of a chain that keep to a set of devices.

    Attributes
    ----------
    low : what is proven of schedules on these devices, J; inf if they cannot keep the limit.
    price : of a second, J.
    """

    def __init__(self, chain: EnergyChain, devices: Sequence[int]) -> None:
        problem = chain.instance.problem
        limit = problem.objective.latency_limit
        self.chain = chain
        self.limit = None if limit is None else max(limit, ABSOLUTE_TOLERANCE)
        platform = problem.platform.devices
        # Where idling takes more than working, it counts as working: amounts are not negative.
        watts = {d: platform[d].watts or 0.0 for d in devices}
        idle = {d: min(watts[d], platform[d].idle_watts) for d in devices}
        self.idle = math.fsum(idle.values())
        busy = np.zeros(len(platform))
        busy[list(devices)] = [watts[d] - idle[d] for d in devices]
        self.tables = list({id(t): t for t in chain.tables}.values())
        self.rows = [
            np.flatnonzero(np.isin(t.choices.places, devices).all(axis=1)) for t in self.tables
        ]
        self.spent = [t.busy[rows] @ busy for t, rows in zip(self.tables, self.rows, strict=True)]
        self.price, self.low = 0.0, math.inf
        if all(len(rows) for rows in self.rows):
            self.price, low = _price(self)
            self.low = max(0.0, low) * ROUNDING

    def columns(self) -> dict[int, tuple[IntArray, FloatArray, FloatArray]]:
        """Rows, energy (J) and seconds of each table's columns that no other beats in both."""
        found = {}
        for table, rows, spent in zip(self.tables, self.rows, self.spent, strict=True):
            seconds = table.seconds[rows]
            energy, code = spent + self.idle * seconds, table.choices.code[rows]
            kept = []
            for ends in np.unique(code).tolist():
                own = np.flatnonzero(code == ends)
                own = own[np.lexsort((seconds[own], energy[own]))]
                before = np.append(np.inf, np.minimum.accumulate(seconds[own])[:-1])
                kept.append(own[seconds[own] < before])
            best = np.concatenate(kept)
            found[id(table)] = rows[best], energy[best], seconds[best]
        return found

    def probe(
        self, options: Options, budget: CpsatBudget, target: float, width: int, most: float
    ) -> tuple[list[Schedule], float]:
        """Look below a target (J): schedules, and the work; `low` rises."""
        plans: list[Schedule] = []
        spent = 0.0
        for _ in range(_ROUNDS):
            search, rows, unit = self._search(target)
            search.until = budget.deadline
            answer = search.run(width, int(most - spent))
            spent += answer.work
            if answer.least == math.inf:
                self.low = max(self.low, target * ROUNDING)
                break
            self.low = max(self.low, min(target, float(answer.lowest[0]) / unit) * ROUNDING)
            risen = False
            for way in answer.ways[:_SCHEDULED]:
                chosen = [int(own[row]) for own, row in zip(rows, way, strict=True)]
                for table, row in zip(self.chain.tables, chosen, strict=True):
                    risen |= table.schedule(row, options, budget)
                plans.append(self.chain.schedule(chosen, options.seed))
            if not risen or spent >= most or budget.exhausted():
                break
        problem = self.chain.instance.problem
        return [plan for plan in plans if within_limit(problem, plan.executions)], spent

    def _search(self, target: float) -> tuple[LabelSearch, list[IntArray], float]:
        """Labels for chains below a target, the rows that its steps stand for, units a joule."""
        count, unit = len(self.chain.instance.names), _UNITS / target
        columns = self.columns()
        steps = {}
        for table in self.tables:
            rows, energy, seconds = columns[id(table)]
            taken = [np.floor(energy * unit)]
            if self.limit is not None:
                taken.append(np.floor(seconds * (_UNITS / self.limit)))
            code = table.choices.code[rows]
            steps[id(table)] = LabelStep(code // count, code % count, np.column_stack(taken))
        room, price = np.array([_UNITS]), np.ones(1)
        if self.limit is not None:
            room = np.append(room, _UNITS * (1 + _TOLERANCE))
            price = np.append(price, self.price * self.limit / target)
        order = [steps[id(table)] for table in self.chain.tables]
        chosen = [columns[id(table)][0] for table in self.chain.tables]
        return LabelSearch(order, count, room, price, by_first=True), chosen, unit


def _price(own: OnDevices) -> tuple[float, float]:
    """The price of a second (J) whose bound is best, and the bound (J); it is concave in it."""
    columns = own.columns()
    energy, seconds = _cheapest(own, columns, 0.0)
    if own.limit is None or seconds <= own.limit:
        return 0.0, energy
    limit = own.limit * (1 + _TOLERANCE)
    if _cheapest(own, columns, math.inf)[1] > limit:
        return 0.0, math.inf
    best = (0.0, energy)
    low, high = 0.0, math.inf
    price = max(energy / limit, 1e-9)
    for _ in range(_PRICES):
        energy, seconds = _cheapest(own, columns, price)
        best = max(best, (price, energy + price * (seconds - limit)), key=lambda pair: pair[1])
        if seconds > limit:
            low = price
        else:
            high = price
        price = 4 * low if high == math.inf else (low + high) / 2
    return best


def _cheapest(
    own: OnDevices, columns: dict[int, tuple[IntArray, FloatArray, FloatArray]], price: float
) -> tuple[float, float]:
    """Energy and seconds of the chain with the least energy + price x seconds (inf: seconds)."""
    count = len(own.chain.instance.names)
    least: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}
    for table in own.tables:
        rows, energy, seconds = columns[id(table)]
        cost = seconds if price == math.inf else energy + price * seconds
        code = table.choices.code[rows]
        order = np.lexsort((cost, code))
        begins = order[np.flatnonzero(np.append([True], np.diff(code[order]) > 0))]
        matrices = []
        for column in (cost, energy, seconds):
            matrix = np.full(count * count, np.inf)
            matrix[code[begins]] = column[begins]
            matrices.append(matrix.reshape(count, count))
        least[id(table)] = (matrices[0], matrices[1], matrices[2])
    reached = np.full((3, count), np.inf)
    reached[:, 0] = 0.0
    every = np.arange(count)
    for table in own.chain.tables:
        cost, energy, seconds = least[id(table)]
        total = reached[0][:, None] + cost
        come = total.argmin(axis=0)
        reached = np.array(
            [
                total[come, every],
                reached[1][come] + energy[come, every],
                reached[2][come] + seconds[come, every],
            ]
        )
    j = int(reached[0].argmin())
    return float(reached[1][j]), float(reached[2][j])


def least_energy(
    chain: EnergyChain, options: Options, budget: CpsatBudget, start: Schedule | None
) -> tuple[Schedule | None, float]:
    """The best schedule that is found, from a start, and what is proven of all (J)."""
    used = sorted({d for row in chain.instance.devices for d in row})
    sets = [OnDevices(chain, devices) for devices in subsets(used)]
    best, high = start, math.inf if start is None else start.value
    if high == math.inf:
        # Something above all: the most expensive columns one after the other.
        high = 1.0 + math.fsum(_most(own, chain.tables) for own in sets if own.low < math.inf)
    work = _WORK * options.time_limit if high > 0 else 0.0
    for width in _WIDTHS:
        for own in sorted(sets, key=lambda one: one.low):
            for share in (1.0, 0.5):
                target = high * _BELOW if share == 1.0 else (own.low + high) / 2
                if own.low >= target * _BELOW or work <= 0 or budget.exhausted():
                    continue
                plans, spent = own.probe(options, budget, target, width, _PART * work)
                work -= spent
                for plan in plans:
                    if plan.value < high:
                        best, high = plan, plan.value
    return best, min([own.low for own in sets if own.low < math.inf], default=0.0)


def subsets(devices: Sequence[int]) -> list[tuple[int, ...]]:
    """All sets of devices that are not empty, the smallest first."""
    sizes = range(1, len(devices) + 1)
    return [found for size in sizes for found in combinations(devices, size)]


def _most(own: OnDevices, tables: Sequence[Times]) -> float:
    spent = {
        id(t): float((row + own.idle * t.seconds[rows]).max(initial=0.0))
        for t, row, rows in zip(own.tables, own.spent, own.rows, strict=True)
    }
    return math.fsum(spent[id(t)] for t in tables)
