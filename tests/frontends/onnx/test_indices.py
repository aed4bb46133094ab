"""Indices of ONNX models: from the end, and out of bounds an error, never foreign memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.draws import draws
from tests.frontends.onnx.inline import inline_module  # noqa: F401  (an autouse fixture)
from tests.frontends.onnx.models import make, run
from tests.models import as_schedule, lowered, two_cpus, unit_problem
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import RunError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.passes.annotate_devices import annotate_devices

KINDS = {"int32": TensorProto.INT32, "int64": TensorProto.INT64}
DATA = np.arange(5 * 4, dtype=np.float32).reshape(5, 4)
BATCHED = np.arange(2 * 5 * 4, dtype=np.float32).reshape(2, 5, 4)

# Operator, data, shape of the indices, of the updates (if any), attributes, sizes of the axes that
# the indices point into (one, or one for each coordinate).
CASES: dict[str, tuple[str, Any, list[int], list[int] | None, dict[str, Any], list[int]]] = {
    "rows": ("Gather", DATA, [1, 3], None, {}, [5]),
    "columns": ("Gather", DATA, [2, 2], None, {"axis": -1}, [4]),
    "elements": ("GatherElements", DATA, [3, 4], None, {"axis": 0}, [5]),
    "elements of rows": ("GatherElements", DATA, [5, 2], None, {"axis": 1}, [4]),
    "coordinates": ("GatherND", DATA, [3, 2], None, {}, [5, 4]),
    "rows by coordinates": ("GatherND", DATA, [2, 2, 1], None, {}, [5]),
    "coordinates of a batch": ("GatherND", BATCHED, [2, 1], None, {"batch_dims": 1}, [5]),
    "written elements": ("ScatterElements", DATA, [3, 4], [3, 4], {"axis": 0}, [5]),
    "written elements of rows": ("ScatterElements", DATA, [2, 3], [2, 3], {"axis": 1}, [4]),
    "added elements": (
        "ScatterElements", DATA, [3, 2], [3, 2], {"axis": 0, "reduction": "add"}, [5]),
    "written coordinates": ("ScatterND", DATA, [3, 2], [3], {}, [5, 4]),
    "written rows": ("ScatterND", DATA, [2, 1], [2, 4], {}, [5]),
    "multiplied coordinates": ("ScatterND", DATA, [2, 2], [2], {"reduction": "mul"}, [5, 4]),
}  # fmt: skip


def model(case: str, dtype: str = "int64") -> onnx.ModelProto:
    """The operator of a case between others, on indices ``i`` that are an input."""
    op, data, shape, updates, attributes, _ = CASES[case]
    constants = {"t": data}
    if updates is not None:
        constants["u"] = 2 + np.arange(np.prod(updates), dtype=np.float32).reshape(updates)
    names = ["t", "i", *(["u"] if updates is not None else [])]
    nodes = [
        helper.make_node(op, names, ["g"], **attributes),
        helper.make_node("Relu", ["g"], ["r"]),
        helper.make_node("Add", ["r", "one"], ["y"]),
    ]
    constants["one"] = np.ones(1, np.float32)
    made = make(nodes, {"i": shape}, ["y"], constants, opset=18)
    made.graph.input[0].type.tensor_type.elem_type = KINDS[dtype]
    return made


# The operators of coordinates take none of 32 bits.
TYPED = [
    (case, dtype)
    for case, (op, *_) in CASES.items()
    for dtype in KINDS
    if dtype == "int64" or "ND" not in op
]


def executor(source: onnx.ModelProto) -> Executor:
    """An executor whose kernels run on two devices in turn."""
    platform = two_cpus()
    mod = lowered(from_onnx(source), platform)
    problem = unit_problem(mod, platform)
    names = platform.names
    tasks = [(task, names[n % 2], (0,)) for n, task in enumerate(problem.graph.index)]
    return Executor(build(annotate_devices(mod, problem, as_schedule(problem, tasks))))


def indices(case: str, seed: int, dtype: str = "int64") -> Any:
    """Indices within bounds, those below 0 as well; all different where that matters."""
    _, _, shape, updates, _, lengths = CASES[case]
    rng = np.random.default_rng(seed)
    if updates is None or "added" in case or "multiplied" in case:
        sizes = np.array(lengths) if len(lengths) > 1 else lengths[0]
        return rng.integers(-sizes, sizes, shape).astype(dtype)
    count = shape[CASES[case][4].get("axis", 0)]
    places = rng.permutation(min(lengths))[:count] - rng.integers(0, 2) * min(lengths)
    along = [1] * len(shape)
    along[CASES[case][4].get("axis", 0)] = count
    return np.broadcast_to(places.reshape(along), shape).astype(dtype)


def with_one(values: Any, at: int, value: int) -> Any:
    """The indices with another one at a place."""
    changed = values.copy()
    changed.reshape(-1)[at] = value
    return changed


@pytest.mark.parametrize(("case", "dtype"), TYPED)
def test_an_index_out_of_bounds_is_an_error_that_names_it(case: str, dtype: str) -> None:
    source, lengths = model(case, dtype), CASES[case][5]
    right = indices(case, 0, dtype)
    (expected,) = run(source, {"i": right})
    with executor(source) as ex:
        for at in (0, right.size - 1):
            length = lengths[at % len(lengths)]
            for wrong in (length, -length - 1, 100_000, -100_000, 2**31 - 1, -(2**31)):
                message = rf"index {wrong} is out of bounds for axis \d of size {length} of"
                with pytest.raises(RunError, match=message):
                    ex.run({"i": with_one(right, at, wrong)})
        # It goes on with the next request.
        np.testing.assert_array_equal(ex.run({"i": right})[0].numpy(), expected)


@pytest.mark.parametrize(("case", "dtype"), TYPED)
def test_indices_within_bounds_give_what_onnx_runtime_gives(case: str, dtype: str) -> None:
    source = model(case, dtype)
    with executor(source) as ex:
        for seed in range(6):
            given_ = indices(case, seed, dtype)
            (expected,) = run(source, {"i": given_})
            np.testing.assert_array_equal(ex.run({"i": given_})[0].numpy(), expected)


def test_an_index_of_64_bits_is_not_cut_to_32() -> None:
    with executor(model("rows")) as ex:
        for wrong in (2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63)):
            with pytest.raises(RunError, match=f"index {wrong} is out of bounds"):
                ex.run({"i": np.array([[0, wrong, 1]])})


@pytest.mark.parametrize("case", ["rows", "coordinates", "written elements", "written coordinates"])
def test_any_indices_are_an_error_or_what_onnx_runtime_gives(case: str) -> None:
    source, (_, _, shape, _, _, lengths) = model(case), CASES[case]
    number = st.one_of(st.integers(-7, 7), st.integers(-(2**63), 2**63 - 1))
    count = int(np.prod(shape))
    with executor(source) as ex:

        @settings(max_examples=draws(60), deadline=None, database=None)
        @given(st.lists(number, min_size=count, max_size=count))
        def check(values: Sequence[int]) -> None:
            index = np.array(values, np.int64).reshape(shape)
            inside = all(-lengths[n % len(lengths)] <= v < lengths[n % len(lengths)]
                         for n, v in enumerate(values))  # fmt: skip
            if not inside:
                with pytest.raises(RunError, match="is out of bounds for axis"):
                    ex.run({"i": index})
                return
            (expected,) = run(source, {"i": index})
            np.testing.assert_array_equal(ex.run({"i": index})[0].numpy(), expected)

        check()


def test_a_stream_and_a_future_raise_it_too() -> None:
    right, wrong = np.array([[0, 1, -1]]), np.array([[0, 5, 1]])
    with executor(model("rows")) as ex:
        with pytest.raises(RunError, match="index 5 is out of bounds"):
            ex.submit({"i": wrong}).result()
        with pytest.raises(RunError, match="index 5 is out of bounds"):
            list(ex.map([{"i": right}, {"i": wrong}]))
        assert ex.run({"i": right})[0].numpy().shape == (1, 3, 4)


def test_tables_and_updates_that_are_computed_from_constants() -> None:
    nodes = [
        helper.make_node("Transpose", ["t"], ["turned"]),
        helper.make_node("Gather", ["turned", "i"], ["g"]),
        helper.make_node("Unsqueeze", ["i", "one"], ["places"]),
        helper.make_node("Neg", ["t2"], ["updates"]),
        helper.make_node("ScatterND", ["turned", "places", "updates"], ["s"]),
        helper.make_node("Concat", ["g", "s"], ["y"], axis=0),
    ]
    constants = {"t": DATA, "one": np.array([1])}
    constants["t2"] = np.arange(10, dtype=np.float32).reshape(2, 5)
    source = make(nodes, {"i": [2]}, ["y"], constants, opset=18)
    source.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    with executor(source) as ex:
        for index in ([0, 3], [-1, 1], [-4, 2]):
            (expected,) = run(source, {"i": np.array(index)})
            np.testing.assert_array_equal(ex.run({"i": np.array(index)})[0].numpy(), expected)
        with pytest.raises(RunError, match="index 4 is out of bounds for axis 0 of size 4"):
            ex.run({"i": np.array([0, 4])})
