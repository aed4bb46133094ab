"""State at run time: what a request leaves, the next one finds, and nobody else."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.models import lowered, random_schedule, two_cpus, unit_problem
from tests.stateful_model import LENGTH, WIDTH, Expected, running_sums
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective


def executor(batch: int, seed: int = 1, platform: Platform | None = None) -> Executor:
    """The model on two devices, placed at random."""
    place = platform or two_cpus()
    mod = lowered(running_sums(), place)
    problem = unit_problem(mod, place, batch)
    placed = annotate_devices(mod, problem, random_schedule(problem, seed))
    return Executor(build(placed, single=False))


@pytest.fixture(scope="module")
def alone() -> Iterator[Executor]:
    """An executor of one element."""
    with executor(1) as ex:
        yield ex


@pytest.fixture(scope="module")
def three() -> Iterator[Executor]:
    """An executor of a batch of three."""
    with executor(3) as ex:
        yield ex


def tokens(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    """Random inputs."""
    return np.random.default_rng(seed).standard_normal((*shape, WIDTH)).astype("float32")


def position(*numbers: int) -> np.ndarray[Any, Any]:
    """The input of that name."""
    return np.array(numbers, "int32")


def test_a_request_finds_what_those_before_it_left(alone: Executor) -> None:
    assert [info.name for info in alone.inputs] == ["x", "position"]
    assert alone.inputs[1].range == (0, LENGTH - 1)
    assert alone.states == ("sum.0", "sum.1", "sum.2")
    state, expected = alone.new_state(), Expected()
    assert state.nbytes == 3 * 4 * LENGTH * WIDTH
    for p in range(LENGTH):
        x = tokens(p, 1)
        (y,) = alone.run(x=x, position=position(p), state=state)
        np.testing.assert_allclose(y.numpy(), expected.step(x, p), rtol=1e-5, atol=1e-6)
    for name, rows in zip(alone.states, expected.rows, strict=True):
        np.testing.assert_allclose(state[name][0].numpy(), rows, rtol=1e-5, atol=1e-6)


def test_sets_of_state_do_not_meet(alone: Executor) -> None:
    states = [alone.new_state() for _ in range(4)]
    expected = [Expected() for _ in states]
    for p in range(LENGTH):
        xs = [tokens(10 * p + i, 1) for i in range(4)]
        pending = [
            alone.submit(x=x, position=position(p), state=s)
            for x, s in zip(xs, states, strict=True)
        ]
        for x, answer, want in zip(xs, pending, expected, strict=True):
            np.testing.assert_allclose(
                answer.result(60)[0].numpy(), want.step(x, p), rtol=1e-5, atol=1e-6
            )


def test_elements_of_a_batch_are_sequences_of_their_own(three: Executor) -> None:
    state, expected = three.new_state(), [Expected() for _ in range(3)]
    places = [[0, 0, 0], [1, 0, 1], [2, 1, 0], [3, 2, 1]]  # one begins anew whenever it likes
    for p, row in enumerate(places):
        x = tokens(p, 3, 1)
        (y,) = three.run(x=x, position=position(*row).reshape(3, 1), state=state)
        for e in range(3):
            want = expected[e].step(x[e], row[e])
            np.testing.assert_allclose(y.numpy()[e], want, rtol=1e-5, atol=1e-6)


def test_an_executor_of_one_element_goes_on_with_an_element_of_a_batch(
    alone: Executor, three: Executor
) -> None:
    state, expected = three.new_state(), Expected()
    for p in range(3):
        x = tokens(p, 1)
        (y,) = alone.run(x=x, position=position(p), state=state.element(1))
        np.testing.assert_allclose(y.numpy(), expected.step(x, p), rtol=1e-5, atol=1e-6)
    x = tokens(9, 3, 1)
    (y,) = three.run(x=x, position=position(0, 3, 0).reshape(3, 1), state=state)
    np.testing.assert_allclose(y.numpy()[1], expected.step(x[1], 3), rtol=1e-5, atol=1e-6)


def test_two_requests_with_one_state_are_refused_and_it_is_free_afterwards(
    alone: Executor, three: Executor
) -> None:
    state = three.new_state()
    inputs = {"x": tokens(0, 3, 1), "position": position(0, 0, 0).reshape(3, 1)}
    state.element(2).acquire()
    for call in (three.run, three.submit):
        with pytest.raises(UsageError, match="element 2 of the state is in use"):
            call(inputs, state=state)
    # The other elements were not taken.
    alone.run(x=tokens(0, 1), position=position(0), state=state.element(0))
    state.element(2).release()
    assert three.submit(inputs, state=state).result(60)
    wait([three.submit(inputs, state=state)])
    three.run(inputs, state=state)


def test_threads_that_share_a_state_get_an_error_or_a_turn(alone: Executor) -> None:
    state, outcomes = alone.new_state(), []

    def work() -> None:
        for _ in range(50):
            try:
                alone.run(x=tokens(0, 1), position=position(0), state=state)
                outcomes.append(True)
            except UsageError:
                outcomes.append(False)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(outcomes) == 200 and any(outcomes)
    state.acquire()  # and it is free in the end


def test_a_failed_or_cancelled_request_frees_its_state(alone: Executor) -> None:
    state = alone.new_state()
    with pytest.raises(RunError, match="position"):
        alone.run(x=tokens(0, 1), state=state)
    pending = alone.submit(x=tokens(0, 1), position=position(0), state=state)
    pending.cancel()
    for _ in range(1000):  # its kernels may still run: then the state is not free yet
        try:
            alone.run(x=tokens(0, 1), position=position(0), state=state)
            break
        except UsageError:
            threading.Event().wait(0.01)
    else:
        pytest.fail("the state of a cancelled request was never free again")


def test_what_does_not_fit_is_said(alone: Executor, three: Executor) -> None:
    inputs = {"x": tokens(0, 1), "position": position(0)}
    with pytest.raises(RunError, match=r"keeps a state \(3 tensors, 'sum\.0'"):
        alone.run(inputs)
    with pytest.raises(RunError, match="keeps a state"):
        next(alone.map([inputs]))
    with pytest.raises(RunError, match="of 3 elements, expected 1"):
        alone.run(inputs, state=three.new_state())
    with pytest.raises(UsageError, match="element 3: expected one from 0 to 2"):
        three.new_state().element(3)
    wrong = alone.new_state()
    wrong.elements[0].tensors["sum.1"] = np.zeros(3, "float32")
    with pytest.raises(RunError):
        alone.run(inputs, state=wrong)
    other = alone.new_state()
    del other.elements[0].tensors["sum.1"]
    with pytest.raises(RunError, match="of another model"):
        alone.run(inputs, state=other)
    with pytest.raises(RunError, match=r"there is no input 'sum\.0'"):
        alone.run({**inputs, "sum.0": np.zeros((LENGTH, WIDTH), "float32")})


@pytest.mark.parametrize("nonsense", [5, "state", {}])
def test_what_is_no_state_is_refused_by_its_type(alone: Executor, nonsense: Any) -> None:
    inputs = alone.random_inputs(0)
    with pytest.raises(RunError, match=f"new_state.* got {type(nonsense).__name__}"):
        alone.run(inputs, state=nonsense)
    assert alone.run(inputs, state=alone.new_state())


def test_measuring_has_a_state_of_its_own(alone: Executor) -> None:
    values = alone.random_inputs(3)
    assert 0 <= values["position"][0] < LENGTH and set(values) == {"x", "position"}
    assert len(alone.benchmark(values, repeat=3, warmup=1)) == 3
    assert alone.throughput(values, batches=4) > 0


def test_a_device_that_insists_on_copying_keeps_its_states_itself() -> None:
    host, apart = two_cpus().devices
    rows = tuple(replace(d, peak_flops=1e11, bandwidth=1e10) for d in (host, apart))
    place = Platform((rows[0], replace(rows[1], private=True)), two_cpus().links, name="apart")
    mod = lowered(running_sums(), place)
    problem = make_problem(
        mod, place, PartitionOptions(objective=Objective(batch=2), cost_model="analytical")
    ).problem
    placed = annotate_devices(mod, problem, random_schedule(problem, 5))
    with Executor(build(placed, single=False)) as ex:
        state, expected = ex.new_state(), [Expected(), Expected()]
        for p in range(3):
            x = tokens(p, 2, 1)
            (y,) = ex.run(x=x, position=position(p, p).reshape(2, 1), state=state)
            for e in range(2):
                want = expected[e].step(x[e], p)
                np.testing.assert_allclose(y.numpy()[e], want, rtol=1e-5, atol=1e-6)


def test_states_do_not_limit_how_many_requests_are_in_flight(three: Executor) -> None:
    """They are made once by who calls, not once for each request."""
    from tvm_hetero.executor import native

    def frames(memory: int, states: bool) -> int:
        host, *others = three.plan.devices
        devices = (replace(host, memory=memory), *others)
        inputs = tuple(replace(row, is_state=row.is_state and states) for row in three.plan.inputs)
        held = native.create(replace(three.plan, devices=devices, inputs=inputs))
        held.close()
        return held.frames

    enough = bisect.bisect_left(range(1 << 20), three.depth, key=lambda m: frames(m, True))
    assert frames(enough, True) == three.depth > 2
    assert frames(enough, False) < three.depth
