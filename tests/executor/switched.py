"""Executors that switch between plans of y = 2x + 1 whose steps wait, count, and are Python's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tests.executor.gated import Gate
from tests.executor.native_plans import PlanBuilder
from tvm_hetero.artifact.executable import Executable, Variant
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.plan_switch import ActivePlan
from tvm_hetero.plan.format import plan_from_dict
from tvm_hetero.problem.schedule import Schedule

CORES = sorted(os.sched_getaffinity(0))


@dataclass(frozen=True)
class BuiltVariant(Variant):
    """A plan that a test has built row by row."""

    builder: PlanBuilder


class Switched(Executor):
    """An executor of plans that tests have built: it gives them their functions and kernels."""

    def _load(
        self, name: str, variant: Variant, schedule: Schedule, before: ActivePlan | None = None
    ) -> ActivePlan:
        active = super()._load(name, variant, schedule, before)
        assert isinstance(variant, BuiltVariant)
        variant.builder.equip(active.native)
        return active


def built(builder: PlanBuilder) -> BuiltVariant:
    """What `Executor.switch` takes."""
    return BuiltVariant(plan_from_dict(builder.plan), {}, builder)


def gated_plan(gate: Gate, workers: int = 2, cores: list[list[int]] | None = None) -> PlanBuilder:
    """y = 2x + 1 in two steps, the first of which waits at a gate; on one worker, or two."""
    builder = PlanBuilder(workers, cores)
    [doubled] = builder.call([builder.input()], worker=0, function=gate.enter)
    [out] = builder.call([doubled], worker=workers - 1, function=gate.leave)
    return builder.output(out)


def opened() -> Gate:
    """A gate that holds nobody."""
    gate = Gate()
    gate.open.set()
    return gate


@contextmanager
def switched(executable: Executable, plans: Mapping[str, PlanBuilder]) -> Iterator[Switched]:
    """An executor of these plans, the first of which runs."""
    variants = {name: built(builder) for name, builder in plans.items()}
    made = replace(executable, variants=variants, weights={})
    with Switched(made, next(iter(plans))) as executor:
        yield executor


@dataclass
class TwoPlans:
    """An executor with plans "old", whose gate is shut, and "new", whose gate is open."""

    executor: Switched
    old: Gate
    new: Gate

    @property
    def seen(self) -> list[float]:
        """The values of all requests that were begun, each as often as it was."""
        return sorted(self.old.seen + self.new.seen)


@contextmanager
def two_plans(
    executable: Executable,
    cores: list[list[int]] | None = None,
    new_cores: list[list[int]] | None = None,
) -> Iterator[TwoPlans]:
    """An executor of two plans: "old" on two workers, "new" on one."""
    old, new = Gate(), opened()
    plans = {"old": gated_plan(old, 2, cores), "new": gated_plan(new, 1, new_cores)}
    with switched(executable, plans) as executor:
        try:
            yield TwoPlans(executor, old, new)
        finally:
            old.open.set()
            new.open.set()
