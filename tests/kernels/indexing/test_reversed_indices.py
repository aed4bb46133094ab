"""Reshaped tensors that are read from their end, or onwards from within, have the right values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, te, tirx

from tests.draws import draws
from tests.kernels.helpers import AVX512, SSE, kernels, model, run, runs_here, scheduled
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.indexing.reversed_indices import hide_reversed_indices
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


@pytest.mark.parametrize(("step", "hides"), [(1, False), (2, False), (-1, True), (-3, True)])
def test_only_what_counts_down_is_hidden(step: int, hides: bool) -> None:
    func = taken_apart([2, 3, 4], 23 if step < 0 else 0, step, 8)
    hidden = hide_reversed_indices(func)
    assert ("reinterpret" in hidden.script()) == hides
    assert hides or hidden.same_as(func)
