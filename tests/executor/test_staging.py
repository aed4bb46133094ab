"""Inputs are copied into memory that is kept, and no run finds there what another left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tvm

from tests.executor.gated import Gated, gated, result, vector
from tests.executor.native_plans import PlanBuilder
from tests.executor.threads import in_threads
from tests.models import branchy_inputs
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import NumericsError, RunError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.staging import Staging
from tvm_hetero.plan.format import plan_from_dict
from tvm_hetero.plan.model import InputPlan, Plan, TensorPlan

X, Y = branchy_inputs(0)


@pytest.fixture(scope="module")
def executor(executable: Executable) -> Iterator[Executor]:
    with Executor(executable) as made:
        yield made


@pytest.fixture
def held(executable: Executable) -> Iterator[Gated]:
    with gated(executable) as made:
        yield made


def outputs_of(executor: Executor, x: np.ndarray, y: np.ndarray) -> list[bytes]:
    return [out.numpy().tobytes() for out in executor.run({"in/x": x, "y": y})]


def plan_of(dtype: str = "float32", shape: tuple[int, ...] = (2, 3)) -> Plan:
    """A plan that reads one input and makes a copy of it."""
    builder = PlanBuilder()
    plan = plan_from_dict(builder.output(builder.copy(builder.input())).plan)
    return replace(plan, inputs=(InputPlan("x", 0, TensorPlan(shape, dtype)),))


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same elements in memory of every kind."""
    frozen, odd = array.copy(), np.empty(array.nbytes + 1, "uint8")[1:].view(array.dtype)
    frozen.flags.writeable = False
    odd = odd.reshape(array.shape)
    odd[...] = array
    wide = np.repeat(array, 2, axis=-1)
    return {
        "frozen": frozen,
        "misaligned": odd,
        "by columns": np.asfortranarray(array),
        "strided": wide[..., ::2],
        "backwards": array[..., ::-1].copy()[..., ::-1],
    }


def test_the_layout_of_an_array_makes_no_difference(executor: Executor) -> None:
    expected = outputs_of(executor, X, Y)
    for name, x in layouts(X).items():
        kept = x.copy()
        assert outputs_of(executor, x, Y) == expected, name
        assert (x == kept).all()


def test_one_run_after_the_other_is_in_the_same_memory(executor: Executor) -> None:
    staging = executor._plans.current.staging
    places = set()
    for i in range(5):
        inputs = dict(zip(("in/x", "y"), branchy_inputs(i), strict=True))
        executor.run(inputs)
        staged = staging.fill(inputs)
        assert staged is not None
        assert all(view.ctypes.data % 64 == 0 for view in staged.views)
        places.add(staged.views[0].ctypes.data)
        staging.give_back(staged)
    assert len(places) == 1


def test_runs_at_once_have_memory_of_their_own(executor: Executor) -> None:
    staging = executor._plans.current.staging
    first = staging.fill({"in/x": X, "y": Y})
    second = staging.fill({"in/x": -X, "y": -Y})
    assert first is not None and second is not None
    for mine, other, value in zip(first.views, second.views, (X, Y), strict=True):
        assert (mine == value).all() and (other == -value).all()


def test_threads_get_the_outputs_of_their_own_inputs(executor: Executor) -> None:
    inputs = [branchy_inputs(i) for i in range(4)]
    expected = [outputs_of(executor, *each) for each in inputs]

    def work(number: int) -> None:
        for _ in range(30):
            assert outputs_of(executor, *inputs[number]) == expected[number]

    in_threads(4, work)


def test_the_memory_of_a_run_that_fails_is_left_to_whoever_still_reads_it(
    executable: Executable,
) -> None:
    with Executor(executable) as executor:
        expected = outputs_of(executor, X, Y)
        [kept] = executor._plans.current.staging._free
        executor.check_numerics = True
        with pytest.raises(NumericsError):
            executor.run({"in/x": np.full_like(X, np.nan), "y": Y})
        assert executor._plans.current.staging._free == []
        assert outputs_of(executor, X, Y) == expected
        [fresh] = executor._plans.current.staging._free
        assert fresh is not kept


def test_what_a_function_may_give_back_is_in_no_memory_that_is_used_again(held: Gated) -> None:
    executor, gate = held
    gate.open.set()
    assert executor._plans.current.staging.fill({"x": vector(1)}) is None
    assert result(executor.run(x=vector(1))) == 3


def test_an_input_that_is_an_output_is_in_no_memory_that_is_used_again() -> None:
    plan = plan_of()
    assert Staging(plan).fill({"x": np.zeros((2, 3), "float32")}) is not None
    returned = replace(plan, outputs=(replace(plan.outputs[0], slot=0),))
    assert Staging(returned).fill({"x": np.zeros((2, 3), "float32")}) is None


@pytest.mark.parametrize(
    "values",
    [
        {"x": np.zeros((2, 3), "float64")},
        {"x": np.zeros((2, 3), ">f4")},
        {"x": np.zeros((3, 2), "float32")},
        {"x": [[0.0] * 3] * 2},
        {"y": np.zeros((2, 3), "float32")},
        {"x": np.zeros((2, 3), "float32"), "y": 1},
        {},
        [("x", np.zeros((2, 3), "float32"))],
        None,
    ],
)
def test_what_is_not_just_as_the_plan_says_is_read_the_long_way(values: object) -> None:
    assert Staging(plan_of()).fill(values) is None


@pytest.mark.parametrize("dtype", ["bool", "int64", "float16", "uint8"])
def test_elements_of_every_type_stay_what_they_are(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    staged = Staging(plan_of(dtype)).fill({"x": array})
    assert staged is not None
    np.testing.assert_array_equal(staged.tensors[0].numpy(), array)


def test_a_type_that_numpy_lacks_is_read_the_long_way() -> None:
    values = {"x": np.zeros((2, 3), ml_dtypes.bfloat16)}
    assert Staging(plan_of("bfloat16")).fill(values) is None


def test_a_large_array_that_can_be_used_where_it_is_stays_there() -> None:
    shape = (200, 1000)
    aligned = np.from_dlpack(tvm.runtime.empty(shape, "float32"))
    staging = Staging(plan_of(shape=shape))
    assert staging.fill({"x": aligned}) is None
    assert staging.fill({"x": aligned[::-1]}) is not None


def test_inputs_of_many_bytes_are_not_kept() -> None:
    shape = (2000, 1000)
    assert Staging(plan_of(shape=shape)).fill({"x": np.zeros(shape, "float32")}) is None


def test_a_model_without_inputs_is_given_none() -> None:
    staged = Staging(replace(plan_of(), inputs=())).fill({})
    assert staged is not None and len(staged.tensors) == 0


def test_wrong_inputs_are_told_as_before(executor: Executor) -> None:
    with pytest.raises(RunError, match="'y' is missing"):
        executor.run({"in/x": X})
    with pytest.raises(RunError, match="got float64"):
        executor.run({"in/x": X.astype("float64"), "y": Y})
