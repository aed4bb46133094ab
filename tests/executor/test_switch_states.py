"""A set of states goes on over switches of plans, or the plan that cannot reach it is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from tests.executor.gated import WAIT
from tests.models import lowered, random_schedule, two_cpus, unit_problem
from tests.stateful_model import LENGTH, WIDTH, Expected, running_sums
from tvm_hetero.artifact.executable import Executable, Variant
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.plan_factory import PlanFactory
from tvm_hetero.errors import UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.chain import chain_of, places_of, schedule_of
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.problem.schedule import Schedule


@cache
def adaptable(batch: int = 1, private: bool = False) -> Executable:
    """The model on two devices, placed at random, with kernels for both."""
    platform = two_cpus()
    if private:
        big, little = platform.devices
        platform = replace(platform, devices=(big, replace(little, private=True)))
    module = lowered(running_sums(), platform)
    problem = unit_problem(module, platform, batch)
    placed = annotate_devices(module, problem, random_schedule(problem, 1))
    return build(placed, adaptable=True)


def other_plans(executable: Executable) -> list[tuple[Variant, Schedule]]:
    """Plans of the model's contiguous divisions, each way round."""
    problem = executable.problem
    chain, places = chain_of(problem), places_of(problem.platform)
    factory, count = PlanFactory(executable), len(chain)
    ways = [Configuration((count,), (0,)), Configuration((count,), (1,))]
    ways += [
        Configuration((cut, count), turned)
        for cut in range(1, count)
        for turned in ((0, 1), (1, 0))
    ]
    schedules = [schedule_of(chain, way, places) for way in ways]
    return [(factory.variant(schedule), schedule) for schedule in schedules]


def tokens(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((*shape, WIDTH)).astype("float32")


def at(position: int) -> np.ndarray[Any, Any]:
    return np.array([position], "int32")


def test_a_sequence_goes_on_with_its_state_whatever_plan_runs() -> None:
    plans = other_plans(adaptable())
    with Executor(adaptable()) as executor:
        kept, expected = executor.new_state(), Expected()
        for turn, (plan, schedule) in enumerate(plans):
            position = turn % LENGTH
            x = tokens(turn, 1)
            (y,) = executor.run(x=x, position=at(position), state=kept)
            np.testing.assert_allclose(y.numpy(), expected.step(x, position), rtol=1e-5, atol=1e-6)
            executor.switch(plan, schedule)
        for name, rows in zip(executor.states, expected.rows, strict=True):
            np.testing.assert_allclose(kept[name][0].numpy(), rows, rtol=1e-5, atol=1e-6)
        assert executor.new_state().names == kept.names  # of the plan that runs now


def test_what_was_in_flight_at_a_switch_leaves_its_state_to_the_next_request() -> None:
    plans = other_plans(adaptable())
    with Executor(adaptable()) as executor:
        states = [executor.new_state() for _ in range(3)]
        expected = [Expected() for _ in states]
        for turn, (plan, schedule) in enumerate(plans):
            position = turn % LENGTH
            xs = [tokens(10 * turn + i, 1) for i in range(3)]
            pending = [
                executor.submit(x=x, position=at(position), state=state)
                for x, state in zip(xs, states, strict=True)
            ]
            executor.switch(plan, schedule)  # with all of them in flight, or just ended
            for x, each, want in zip(xs, pending, expected, strict=True):
                (y,) = each.result(WAIT)
                np.testing.assert_allclose(y.numpy(), want.step(x, position), rtol=1e-5, atol=1e-6)


def test_elements_of_a_batch_s_state_stay_apart_over_switches() -> None:
    with Executor(adaptable(2)) as executor:
        kept, expected = executor.new_state(), [Expected(), Expected()]
        for turn, (plan, schedule) in enumerate(other_plans(adaptable(2))[:4]):
            rows = [turn, max(0, turn - 1)]
            x = tokens(turn, 2, 1)
            places = np.array(rows, "int32").reshape(2, 1)
            (y,) = executor.run(x=x, position=places, state=kept)
            for e in range(2):
                want = expected[e].step(x[e], rows[e])
                np.testing.assert_allclose(y.numpy()[e], want, rtol=1e-5, atol=1e-6)
            executor.switch(plan, schedule)


def test_a_plan_that_has_the_state_in_another_memory_is_refused_and_the_old_one_goes_on() -> None:
    made = adaptable(private=True)
    refused = 0
    with Executor(made) as executor:
        kept, expected = executor.new_state(), Expected()
        for turn, (plan, schedule) in enumerate(other_plans(made)):
            position = turn % LENGTH
            before = executor.plan
            try:
                executor.switch(plan, schedule)
            except UsageError as error:
                refused += 1
                assert "lies in other memories" in str(error)
                assert executor.plan is before
            x = tokens(turn, 1)
            (y,) = executor.run(x=x, position=at(position), state=kept)
            np.testing.assert_allclose(y.numpy(), expected.step(x, position), rtol=1e-5, atol=1e-6)
    assert refused > 0
