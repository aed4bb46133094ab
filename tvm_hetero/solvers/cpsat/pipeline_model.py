"""Contiguous stages (rule 8) for CP-SAT: the placement model, and an order of the devices.

To the variables of `placement_model` come, for devices d and stages s = 0 .. k - 1,

    at[d, s]       device d is stage s                    a permutation      -> `_add_order`
    early[v, s]    task v is in stage s or an earlier one                    -> `_add_prefixes`
                   (inputs and outputs are in no stage)

    early[v, s] -> early[v, s + 1]                         stages follow each other
    early[w, s] -> early[v, s]          w reads from v     each prefix of stages is an ideal
    x[v, d] and at[d, s] -> early[v, s] and not early[v, s - 1]              -> `_link`

The prefixes propagate along the whole graph, which pairwise orders of devices do not. Two devices
admit only two orders, and a single kind of device only one, so then `at` is fixed where it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm_hetero.bounds.core.time_is_up import Late, check_late, never
from tvm_hetero.solvers.core.integer_scaling import Ticks
from tvm_hetero.solvers.cpsat.placement_model import PlacementModel
from tvm_hetero.views.instance import Instance

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class PipelineModel(PlacementModel):
    """The model at the head of this file; arguments and errors as of `PlacementModel`."""

    def __init__(self, instance: Instance, ticks: Ticks, most: float, late: Late = never) -> None:
        super().__init__(instance, ticks, most, late)
        self.used = sorted({d for row in instance.devices for d in row})
        self.stages = range(len(self.used))
        self.staged = [g for g in instance.groups if g[0] not in instance.terminals]
        self.at: dict[tuple[int, int], cp_model.IntVar] = {}
        self.early: dict[tuple[int, int], cp_model.IntVar] = {}
        self._add_order()
        check_late(late)
        self._add_prefixes()
        check_late(late)
        self._link()

    def _add_order(self) -> None:
        """Each device is one stage, each stage one device; stages may stay empty."""
        model = self.model
        for d in self.used:
            for s in self.stages:
                self.at[d, s] = model.new_bool_var(f"at{d},{s}")
        for d in self.used:
            model.add_exactly_one(self.at[d, s] for s in self.stages)
        for s in self.stages:
            model.add_exactly_one(self.at[d, s] for d in self.used)

    def _add_prefixes(self) -> None:
        """Every prefix of the stages is an ideal; the last one is everything."""
        model, instance = self.model, self.instance
        for group in self.staged:
            for s in self.stages[:-1]:
                early = model.new_bool_var(f"early{group[0]},{s}")
                self.early.update({(v, s): early for v in group})
            for s in self.stages[:-2]:
                model.add_implication(self.early[group[0], s], self.early[group[0], s + 1])
        for maker, reader in instance.stage_reads:
            for s in self.stages[:-1]:
                model.add_implication(self.early[reader, s], self.early[maker, s])

    def _link(self) -> None:
        """A task is in the stage that its device is."""
        model, last = self.model, self.stages[-1]
        for group in self.staged:
            v = group[0]
            for d in self.instance.devices[v]:
                for s in self.stages:
                    here = (~self.x[v, d], ~self.at[d, s])
                    if s < last:
                        model.add_bool_or(*here, self.early[v, s])
                    if s > 0:
                        model.add_bool_or(*here, ~self.early[v, s - 1])

    def hint(self, placement: list[int]) -> None:
        """Tell CP-SAT a placement whose devices form a pipeline."""
        super().hint(placement)
        order = pipeline_order(self.instance, placement)
        order += [d for d in self.used if d not in order]
        rank = {d: s for s, d in enumerate(order)}
        for (d, s), at in self.at.items():
            self.model.add_hint(at, int(rank[d] == s))
        for group in self.staged:
            for s in self.stages[:-1]:
                self.model.add_hint(self.early[group[0], s], int(rank[placement[group[0]]] <= s))


def pipeline_order(instance: Instance, placement: Sequence[int]) -> list[int]:
    """The devices in use, makers before readers; ties in the order of the platform."""
    makers: dict[int, set[int]] = {d: set() for d in sorted(set(placement))}
    for maker, reader in instance.stage_reads:
        if placement[reader] != placement[maker]:
            makers[placement[reader]].add(placement[maker])
    order: list[int] = []
    while makers:
        # Where there is a cycle the order is of no use, but it is an order.
        free = [d for d, row in makers.items() if row <= set(order)] or list(makers)
        order.append(free[0])
        del makers[free[0]]
    return order
