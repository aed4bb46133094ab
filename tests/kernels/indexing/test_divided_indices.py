"""Tensors that are read by divided indices, onwards or from their end, have the right values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tvm import relax, s_tir, te, tirx

from tests.draws import draws
from tests.kernels.helpers import AVX512, SSE, kernels, model, run, runs_here, scheduled
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.indexing.divided_indices import hide_divided_indices
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

TARGETS = [target for target in (AVX512, SSE) if runs_here(target)]


def taken_apart(dims: list[int], first: int, step: int, count: int) -> tirx.PrimFunc:
    """``y[i]`` is the value at ``first + step i`` of a tensor of such dimensions, laid flat."""
    x = te.placeholder(tuple(tirx.const(d, "int64") for d in dims), "float32", "x")

    def value(i: tirx.Var) -> tirx.PrimExpr:
        place = first + i * step if step > 0 else first - i * -step
        indices, stride = [], math.prod(dims)
        for extent in dims:
            outer, stride = stride, stride // extent
            indices.append(tirx.floordiv(tirx.floormod(place, outer), stride))
        return x[tuple(indices)]

    y = te.compute((tirx.const(count, "int64"),), value, name="y")
    return te.create_prim_func([x, y]).with_attr("global_symbol", "main")


@settings(max_examples=draws(40), deadline=None, derandomize=True)
@given(
    dims=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    step=st.sampled_from([-1, -1, -2, 1, 2]),
    data=st.data(),
)
def test_a_flat_tensor_is_read_in_any_direction(
    dims: list[int], step: int, data: st.DataObject
) -> None:
    size = math.prod(dims)
    count = data.draw(st.integers(1, (size - 1) // abs(step) + 1))
    span = (count - 1) * abs(step)
    free = data.draw(st.integers(0, size - 1 - span))
    first = free if step > 0 else free + span
    target = TARGETS[-1]
    kernel = taken_apart(dims, first, step, count).with_attr("target", target)
    found = tvm.runtime.empty((count,), "float32")
    values = np.arange(size, dtype=np.float32).reshape(dims)
    build(tvm.IRModule({"main": kernel}), target)["main"](tvm.runtime.tensor(values), found)
    np.testing.assert_array_equal(found.numpy(), first + step * np.arange(count))


Place = Callable[[Sequence[Any]], Any]


def draw_place(data: st.DataObject, counters: int, steps: int) -> Place:
    """A whole number made of counters by so many steps, of arrays and of TVM's variables alike."""
    if steps == 0:
        k = data.draw(st.integers(0, counters - 1))
        return lambda at: at[k]
    part = draw_place(data, counters, steps - 1)
    number = data.draw(st.integers(1, 9))
    ways: list[Place] = [
        lambda at: part(at) + number, lambda at: 6 * number - part(at),
        lambda at: part(at) * -number, lambda at: part(at) * number,
        lambda at: part(at) // number, lambda at: part(at) % number,
    ]  # fmt: skip
    return data.draw(st.sampled_from(ways))


@settings(max_examples=draws(40), deadline=None, derandomize=True)
@given(dims=st.lists(st.sampled_from([2, 3, 4, 5, 8, 15]), min_size=1, max_size=2), data=st.data())
def test_whatever_the_indices_are_the_right_values_are_read(
    dims: list[int], data: st.DataObject
) -> None:
    places = [draw_place(data, len(dims), data.draw(st.integers(1, 4))) for _ in range(2)]
    wanted = [np.broadcast_to(place(list(np.indices(dims))), dims) for place in places]
    lows = [int(each.min()) for each in wanted]
    extents = [int(each.max()) - low + 1 for each, low in zip(wanted, lows, strict=True)]
    assume(math.prod(extents) < 10_000)
    x = te.placeholder(extents, "float32", "x")
    y = te.compute(
        dims, lambda *at: x[tuple(p(at) - low for p, low in zip(places, lows, strict=True))]
    )
    kernel = te.create_prim_func([x, y]).with_attr("global_symbol", "main")
    found = tvm.runtime.empty(dims, "float32")
    values = np.arange(math.prod(extents), dtype=np.float32).reshape(extents)
    target = TARGETS[-1]
    module = tvm.IRModule({"main": kernel.with_attr("target", target)})
    build(module, target)["main"](tvm.runtime.tensor(values), found)
    at = tuple(each - low for each, low in zip(wanted, lows, strict=True))
    np.testing.assert_array_equal(found.numpy(), values[at])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("length", "times"), [(4, 2), (5, 3)])
def test_a_repeated_tensor_is_flipped(length: int, times: int, target: tvm.target.Target) -> None:
    """Of seed 1795841011 of `tests.fuzz.onnx_models`: one index, ``(14 - i) % 5``."""
    values = np.arange(length, dtype=np.float32)

    def body(x: relax.Expr) -> relax.Expr:
        size = length * times
        return relax.op.strided_slice(relax.op.tile(x, [times]), [0], [size - 1], [-size - 1], [-1])

    lowered = LowerToTasks([target])(model([(length,)], body))
    assert len(kernels(lowered)) == 1, "a repetition and a flip are one kernel"
    found = run(scheduled(lowered, target), target, values)
    np.testing.assert_array_equal(found, np.tile(values, times)[::-1])


@pytest.mark.parametrize("shape", [(5, 1, 2, 2), (2, 2, 3), (2, 4, 2), (3, 3, 2, 3)])
@pytest.mark.parametrize("target", TARGETS)
def test_a_reshaped_tensor_is_flipped(shape: tuple[int, ...], target: tvm.target.Target) -> None:
    size = math.prod(shape)
    values = np.arange(size, dtype=np.float32).reshape(shape)

    def body(x: relax.Expr) -> relax.Expr:
        flat = relax.op.reshape(x, (size,))
        return relax.op.strided_slice(flat, [0], [size - 1], [-size - 1], [-1])

    lowered = LowerToTasks([target])(model([shape], body))
    assert len(kernels(lowered)) == 1, "a view and a flip are one kernel"
    found = run(scheduled(lowered, target), target, values)
    np.testing.assert_array_equal(found, values.ravel()[::-1])


@pytest.mark.parametrize("first", [0, 11])
def test_one_value_is_read_as_well(first: int) -> None:
    """Its counter is 0 once TVM has simplified it."""
    target = TARGETS[-1]
    kernel = taken_apart([2, 2, 3], first, -1, 1).with_attr("target", target)
    found = tvm.runtime.empty((1,), "float32")
    values = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    build(tvm.IRModule({"main": kernel}), target)["main"](tvm.runtime.tensor(values), found)
    assert found.numpy() == [first]


@pytest.mark.parametrize(
    ("first", "step", "hides"),
    [(0, 1, False), (0, 2, False), (1, 1, False), (23, -1, True), (23, -3, True)],
)
def test_of_a_flat_tensor_only_what_counts_down_is_hidden(
    first: int, step: int, hides: bool
) -> None:
    func = taken_apart([2, 3, 4], first, step, 8)
    hidden = hide_divided_indices(func)
    assert ("reinterpret" in hidden.script()) == hides
    assert hides or hidden.same_as(func)


@pytest.mark.parametrize(
    ("indices", "hides"),
    [
        (lambda i: ((i + 3) // 4, (i + 3) % 4), False),
        (lambda i: ((i + 5) // 4 % 2, i % 4), True),
        (lambda i: ((i % 9 + 3) // 9, 0), True),
        (lambda i: (i // 4, (i + 8) % 4), False),  # a whole number of fours: no shift at all
    ],
)
def test_unlike_shifts_are_hidden(indices: Callable[[Any], tuple[Any, Any]], hides: bool) -> None:
    x = te.placeholder((8, 4), "float32", "x")
    func = te.create_prim_func([x, te.compute((15,), lambda i: x[indices(i)])])
    assert ("reinterpret" in hide_divided_indices(func).script()) == hides


def test_what_is_whole_once_loops_are_split_is_not_hidden() -> None:
    x = te.placeholder((8, 4), "float32", "x")
    y = te.compute((16,), lambda i: x[(i + 8) // 4, i % 4], name="y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    (loop,) = schedule.get_loops("y")
    schedule.split(loop, [4, 4])
    func = schedule.mod["main"]
    assert hide_divided_indices(func).same_as(func)
