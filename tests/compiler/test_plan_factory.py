"""Plans of a built model for other schedules: the same outputs, nothing compiled again."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_hetero
from tests.models import (
    as_schedule,
    branchy,
    branchy_inputs,
    equal_cpus,
    lowered,
    random_schedule,
    teams_of_cpus,
    unit_problem,
    with_sizes,
)
from tvm_hetero.artifact.executable import Executable, Variant
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.compiler import parallel_compile
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.plan_factory import PlanFactory
from tvm_hetero.errors import UsageError
from tvm_hetero.executor.executor import OTHER, Executor
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.platform import Platform
from tvm_hetero.problem.schedule import Schedule


def adaptable(platform: Platform, device: str, batch: int = 1, sizes: bool = False) -> Executable:
    """The model, all of it on one device, with kernels for all."""
    mod = lowered(branchy(), platform)
    problem = unit_problem(mod, platform, batch)
    if sizes:
        problem = with_sizes(problem, mod, 0)
    elements = tuple(range(batch))
    schedule = as_schedule(
        problem, [(t, device, elements) for t in problem.graph.topological_order]
    )
    return build(annotate_devices(mod, problem, schedule), single=False, adaptable=True)


@pytest.fixture(scope="module")
def made() -> Executable:
    return adaptable(equal_cpus(), "big")


def inputs(batch: int = 1) -> Any:
    rows = [dict(zip(("in/x", "y"), branchy_inputs(i), strict=True)) for i in range(batch)]
    return rows[0] if batch == 1 else rows


def arrays(outputs: list[Any]) -> list[Any]:
    return [np.asarray(each.numpy()) for each in outputs]


def test_plans_of_other_schedules_give_the_same_bits(made: Executable) -> None:
    assert set(made.libraries) == {"big", "little"}
    assert list(made.spare) == ["little"]
    factory = PlanFactory(made)
    with Executor(made) as executor:
        expected = arrays(executor.run(inputs()))
        for seed in range(8):
            schedule = random_schedule(made.problem, seed)
            executor.switch(factory.variant(schedule), schedule)
            assert executor.variant == OTHER
            assert executor.schedule is schedule
            for ours, theirs in zip(arrays(executor.run(inputs())), expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_nothing_is_compiled_and_no_weight_placed_again(
    made: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(parallel_compile, "Compiler")
    factory = PlanFactory(made)
    with Executor(made) as executor:
        executor.run(inputs())
        weights = {key: id(value) for key, value in executor._model.placed.items()}
        variant = factory.variant(random_schedule(made.problem, 1))
        executor.switch(variant)
        executor.run(inputs())
        assert {k: id(v) for k, v in executor._model.placed.items()} == weights
        assert set(executor._model.kernels) == set(made.libraries.values())


def test_a_saved_artifact_is_as_good(made: Executable, tmp_path: Path) -> None:
    made.save(tmp_path / "net.hetero")
    loaded = load_artifact(tmp_path / "net.hetero")
    assert set(loaded.spare) == {"little"}
    assert loaded.libraries["little"].parent == tmp_path / "net.hetero"
    factory = PlanFactory(loaded)
    with tvm_hetero.load(tmp_path / "net.hetero") as executor:
        expected = arrays(executor.run(inputs()))
        executor.switch(factory.variant(random_schedule(loaded.problem, 2)))
        for ours, theirs in zip(arrays(executor.run(inputs())), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_from_teams_to_single_cores_and_back() -> None:
    made = adaptable(teams_of_cpus(), "both")
    problem = made.problem
    factory = PlanFactory(made)
    tasks = problem.graph.topological_order

    def placed_on(*devices: str) -> Variant:
        steps = [(t, devices[i % len(devices)], (0,)) for i, t in enumerate(tasks)]
        return factory.variant(as_schedule(problem, steps))

    with Executor(made) as executor:
        expected = arrays(executor.run(inputs()))
        for devices in (("big", "little"), ("both",), ("both", "little"), ("little",), ("both",)):
            executor.switch(placed_on(*devices))
            got = [arrays(each) for each in executor.map([inputs()] * 8)]
            for each in got:
                for ours, theirs in zip(each, expected, strict=True):
                    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_devices_with_memories_of_their_own() -> None:
    platform = equal_cpus()
    devices = tuple(replace(d, private=d.name == "little") for d in platform.devices)
    made = adaptable(replace(platform, devices=devices), "big")
    factory = PlanFactory(made)
    with Executor(made) as executor:
        expected = arrays(executor.run(inputs()))
        for seed in range(4):
            executor.switch(factory.variant(random_schedule(made.problem, seed)))
            for ours, theirs in zip(arrays(executor.run(inputs())), expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_batches_that_are_divided_otherwise_are_other_plans() -> None:
    made = adaptable(equal_cpus(), "big", batch=3, sizes=True)
    factory = PlanFactory(made)
    tasks = made.problem.graph.topological_order

    def divided(*groups: tuple[int, ...]) -> Schedule:
        steps = [(t, "big", group) for group in groups for t in tasks]
        return as_schedule(made.problem, steps)

    ways = [divided((0, 1), (2,)), divided((0,), (1, 2)), divided((2,), (0, 1))]
    variants = [factory.variant(way) for way in ways]
    assert len({variant.tasks for variant in variants}) == 3
    with Executor(made) as executor:
        expected = arrays(executor.run(inputs(3)))
        for variant in variants:
            executor.switch(variant)
            for ours, theirs in zip(arrays(executor.run(inputs(3))), expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_plan_is_made_once_also_where_only_times_differ(made: Executable) -> None:
    factory = PlanFactory(made)
    schedule = random_schedule(made.problem, 3)
    slower = replace(
        schedule,
        executions=tuple(replace(e, start=2 * e.start, end=2 * e.end) for e in schedule.executions),
        copies=tuple(replace(c, start=2 * c.start, end=2 * c.end) for c in schedule.copies),
    )
    assert factory.variant(schedule) is factory.variant(slower)
    assert factory.variant(random_schedule(made.problem, 4)) is not factory.variant(schedule)


def test_a_schedule_of_another_problem_is_refused(made: Executable) -> None:
    factory = PlanFactory(made)
    schedule = random_schedule(made.problem, 3)
    factory.variant(schedule)
    with pytest.raises(UsageError, match="not of this module and problem"):
        factory.variant(replace(schedule, problem="another"))


def test_a_device_without_kernels_is_named(made: Executable) -> None:
    factory = PlanFactory(replace(made, spare={}))
    schedule = as_schedule(
        made.problem, [(t, "little", (0,)) for t in made.problem.graph.topological_order]
    )
    with pytest.raises(UsageError, match=r"nothing was compiled for device 'little'"):
        factory.variant(schedule)


def test_a_model_that_was_not_built_for_it_is_refused(executable: Executable) -> None:
    assert executable.spare == {}
    with pytest.raises(UsageError, match="adaptable=True"):
        PlanFactory(executable)


def test_two_factories_may_make_plans_in_threads_at_once(made: Executable) -> None:
    """As a server does that loads two models: TVM keeps its builders on one stack for all threads;
    a thread that builds alone would find another's there."""
    every, together = sys.getswitchinterval(), threading.Barrier(4)
    schedules = [random_schedule(made.problem, seed) for seed in range(5)]

    def make(factory: PlanFactory) -> list[Variant]:
        together.wait()
        return [factory.variant(schedule) for schedule in schedules]

    factories = [PlanFactory(made) for _ in range(4)]
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(make, factories))
    finally:
        sys.setswitchinterval(every)
    assert all([each.plan for each in row] == [each.plan for each in found[0]] for row in found)
