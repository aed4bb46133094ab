"""Contiguous stages for few heterogeneous devices: a program for each order of theirs.

    1. orders     all sequences of the devices, those that are alike exchanged for nothing
    2. bounds     the relaxed program of every order (`fixed_order_milp`); its values rounded are
                  plans
    3. annealing  of the best of these plans, so that programs have something to beat
    4. programs   by rising bound; each looks only for what is better than the best so far, and
                  most are refuted at once

The bound of the problem is the least of all orders, each at most the value that was to be beaten.
A value is to be beaten by a part of 4e-7, as plans within 1e-6 of a bound are called optimal.

A. Archer, M. Fahrbach, K. Liu and P. Prabhu (Practical Performance Guarantees for Pipelined DNN
Inference, arXiv:2311.03703) bound equal devices by 'three superblocks': one stage, all before it
and all behind it. On three devices that is this very program. On more, ours has rows for all stages
at once, so it is no lower, relaxed as theirs or whole as theirs. Where devices are alike and copies
free, neither relaxation says more than shares of the work; then plans of whole tasks are what is
left to refute, in the whole programs or by ideals (`stage_dp.device_sets`).

What is proven how soon, `python -m benchmarks.schedule --suite throughput` prints, in the cases
that end with *stages*: with `auto`, 200 tasks in series and parallel on three heterogeneous devices
in 7 s with copy engines and 9 s without (`benchmarks/results/schedule_throughput.json`, one core).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.milp import backends
from tvm_hetero.solvers.search.stage_annealing import SHORT, anneal_stages
from tvm_hetero.solvers.stages.fixed_order_milp import StageOrder
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.ideals import Blocks, contract, kinds_of, place_terminals
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.symmetry import find_symmetry

# Stages, orders of devices, and orders x stages x parts (with copies: x stages again, as there is a
# variable for each tensor and two stages): 3 devices and 2,000 tasks are within, or 1,000.
_MOST_STAGES, _MOST_ORDERS = 16, 130
_MOST_PLACES = 60_000
# How much better than the best plan a better plan has to be.
_BETTER = 4e-7
# Nodes in parts of what the backend grants: they are quick here, and few are as a rule enough.
_PATIENCE = 16
# Thresholds at which the values of a relaxed program are rounded.
_THRESHOLDS = 40


@dataclass(frozen=True)
class FoundOrder:
    """A proven bound (s; 0 for none) and the best placement, None if none was better."""

    bound: float
    placement: list[int] | None


def search_orders(
    instance: Instance, best: Sequence[int], options: Options, deadline: float
) -> FoundOrder | None:
    """Look for stages better than a valid placement, order by order; None if it is too large.

    Parameters
    ----------
    best : the placement.
    deadline : of `now`.
    """
    value = exact_value(instance, best)
    used = {d for row in instance.devices for d in row}
    if len(used) > _MOST_STAGES or len(used) * len(instance) > _MOST_PLACES:
        return None  # before all routes are asked for
    blocks = contract(instance, instance.terminals)
    kinds = _kinds(instance, blocks)
    if not 0 < value < math.inf or not _small(instance, kinds):
        return None
    search = _DeviceOrderSearch(instance, blocks, list(best), value, options, deadline)
    return search.run(list(_orders(kinds)))


class _DeviceOrderSearch:
    """What is known on the way."""

    def __init__(
        self,
        instance: Instance,
        blocks: Blocks,
        best: list[int],
        value: float,
        options: Options,
        deadline: float,
    ) -> None:
        self.instance, self.blocks = instance, blocks
        self.best, self.value, self.first = best, value, value
        self.options, self.deadline = options, deadline
        self.plain = not instance.contended and _joined(instance)

    def run(self, orders: list[tuple[int, ...]]) -> FoundOrder:
        """The steps at the head of this file."""
        bounds: list[float] = []
        plans: list[list[int]] = []
        for order in orders:
            bound, rounded = self._relaxed(order)
            bounds.append(bound)
            plans += rounded
        self._anneal(plans, min(bounds))
        for i in sorted(range(len(orders)), key=lambda i: (bounds[i], orders[i])):
            if bounds[i] >= self._beaten() or self._late():
                break
            bounds[i] = max(bounds[i], self._exact(orders[i]))
        better = self.value < self.first
        return FoundOrder(min(*bounds, self._beaten()), self.best if better else None)

    def _beaten(self) -> float:
        return self.value * (1 - _BETTER)

    def _late(self) -> bool:
        return now() >= self.deadline

    def _solve(self, order: StageOrder, *, whole: bool) -> backends.MilpOutcome:
        model = order.model if whole else order.relaxed()
        left = self.deadline - now()
        try:
            limit = _PATIENCE * self.options.time_limit
            return backends.solve(model, "highs", max(0.01, left), limit, self.options.seed)
        except SolverError:
            return backends.MilpOutcome(None, 0.0, False)

    def _relaxed(self, order: tuple[int, ...]) -> tuple[float, list[list[int]]]:
        """What the relaxed program proves of an order, and the best plans that it is rounded to."""
        if self._late():
            return 0.0, []
        model = StageOrder(self.instance, self.blocks, order, self._beaten(), plain=self.plain)
        outcome = self._solve(model, whole=False)
        if outcome.infeasible:
            return self._beaten(), []
        plans = []
        if outcome.values is not None:
            for threshold in model.thresholds(outcome.values, _THRESHOLDS):
                plan = model.read(outcome.values, threshold)
                place_terminals(self.instance, plan)
                plans.append(plan)
        plans.sort(key=lambda plan: exact_value(self.instance, plan))
        return model.bound(outcome.bound), plans[:1]

    def _anneal(self, plans: list[list[int]], bound: float) -> None:
        """Take the best of the plans, and anneal the best that is known."""
        for plan in plans:
            self._take(plan)
        if bound < self._beaten() and not self._late():
            found = anneal_stages(self.instance, self.best, self.options, self.deadline, SHORT)
            if found is not None:
                self._take(found)

    def _exact(self, order: tuple[int, ...]) -> float:
        """What the whole program proves of an order."""
        beaten = self._beaten()
        model = StageOrder(self.instance, self.blocks, order, beaten, plain=self.plain)
        outcome = self._solve(model, whole=True)
        if outcome.infeasible:
            return beaten
        if outcome.values is not None:
            plan = model.read(outcome.values)
            place_terminals(self.instance, plan)
            self._take(plan)
        return model.bound(outcome.bound)

    def _take(self, plan: list[int]) -> None:
        """Keep a plan if it is better."""
        value = exact_value(self.instance, plan)
        if value < self.value:
            self.best, self.value = list(plan), value


def _kinds(instance: Instance, blocks: Blocks) -> list[tuple[int, ...]]:
    """Devices that can stand for each other in an order."""
    used = {d for members in blocks.members for d in instance.devices[members[0]]}
    if instance.contended or not _joined(instance):
        twins = find_symmetry(instance.problem).twins
        rows = [row for row in twins if used.issuperset(row)]
        alone = used.difference(*rows)
        return sorted([*rows, *((d,) for d in alone)])
    none = np.zeros((0, len(instance.names)))
    rows = [tuple(d for d in kind.devices if d in used) for kind in kinds_of(instance, none, none)]
    return [row for row in rows if row]


def _joined(instance: Instance) -> bool:
    """Whether every device that is used can send every tensor to every other."""
    used = sorted({d for row in instance.devices for d in row})
    sizes = {flow.nbytes for flow in instance.tensors}
    return all(
        instance.route(a, b, nbytes) is not None
        for nbytes in sizes
        for a, b in itertools.permutations(used, 2)
    )


def _small(instance: Instance, kinds: list[tuple[int, ...]]) -> bool:
    """Whether there are few orders, and their programs not too large for them all."""
    stages = sum(map(len, kinds))
    orders = math.factorial(stages)
    for kind in kinds:
        orders //= math.factorial(len(kind))
    size = stages * (stages if instance.contended else 1)
    return orders <= _MOST_ORDERS and orders * size * len(instance) <= _MOST_PLACES


def _orders(kinds: list[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """Every sequence of the kinds, devices of a kind in the order of the platform."""
    if not any(kinds):
        yield ()
    for k, kind in enumerate(kinds):
        if kind:
            left = [*kinds[:k], kind[1:], *kinds[k + 1 :]]
            for rest in _orders(left):
                yield (kind[0], *rest)
