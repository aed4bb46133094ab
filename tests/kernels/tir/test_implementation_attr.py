"""Kernels that say how they are to be computed, and those that say nothing."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm import relax

from tests.kernels.helpers import AVX2, CUDA, kernels, model, random, run
from tvm_hetero.cost_models.store.identity import kernel_key
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.implementation_attr import (
    DEFAULT,
    RULE,
    TUNED,
    implementation_of,
    trace_of,
    with_implementation,
    without_implementation,
)
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

MODULE = LowerToTasks([AVX2])(
    model([(1, 4, 9, 9)], lambda x: relax.op.nn.max_pool2d(x, (3, 3), (2, 2)))
)
(NAME,) = kernels(MODULE)
FUNC = kernels(MODULE)[NAME]


def test_a_kernel_says_what_was_written_on_it() -> None:
    assert implementation_of(FUNC) == RULE and trace_of(FUNC) is None
    tuned = with_implementation(FUNC, TUNED, "[]")
    assert (implementation_of(tuned), trace_of(tuned)) == (TUNED, "[]")
    default = with_implementation(tuned, DEFAULT)
    assert (implementation_of(default), trace_of(default)) == (DEFAULT, None)
    assert tvm_ffi.structural_equal(with_implementation(default, RULE), FUNC)
    assert tvm_ffi.structural_equal(without_implementation(tuned), FUNC)
    with pytest.raises(ValueError, match="expected one of"):
        with_implementation(FUNC, "best")
    with pytest.raises(ValueError, match="trace"):
        with_implementation(FUNC, TUNED)


def test_the_default_is_the_loop_nest_as_it_came_and_gives_the_same() -> None:
    by_rule = schedule_kernel(FUNC, AVX2)
    default = schedule_kernel(with_implementation(FUNC, DEFAULT), AVX2)
    assert rule_of(default) == DEFAULT != rule_of(by_rule)
    assert tvm_ffi.structural_equal(default.body, FUNC.body)
    assert not tvm_ffi.structural_equal(default.body, by_rule.body)
    x = random(0, 1, 4, 9, 9)
    outputs = [run(_with(func), AVX2, x) for func in (by_rule, default)]
    np.testing.assert_array_equal(*outputs)


def test_what_is_scheduled_bears_its_rule_alone() -> None:
    done = schedule_kernel(with_implementation(FUNC, DEFAULT), AVX2)
    assert implementation_of(done) == RULE
    assert schedule_kernel(done, AVX2).same_as(done)


def test_a_gpu_has_no_default() -> None:
    assert rule_of(schedule_kernel(with_implementation(FUNC, DEFAULT), CUDA)) == "spatial"


@pytest.mark.parametrize("trace", ["", "no JSON", '[[["NoSuchStep", [], [], []]], []]'])
def test_a_trace_that_does_not_apply_leaves_the_kernel_to_the_rule(trace: str) -> None:
    broken = with_implementation(FUNC, TUNED, trace)
    with pytest.warns(UserWarning, match=r"does not apply.*tune again"):
        assert tvm_ffi.structural_equal(schedule_kernel(broken, AVX2), schedule_kernel(FUNC, AVX2))


def test_the_key_is_that_of_the_loops_alone() -> None:
    key = kernel_key(FUNC)
    assert kernel_key(with_implementation(FUNC, TUNED, "[]")) == key
    assert kernel_key(FUNC.with_attr("global_symbol", "other")) == key
    assert kernel_key(FUNC, [0]) != key
    assert kernel_key(schedule_kernel(FUNC, AVX2)) != key


def _with(func):
    functions = {gv: func if gv.name_hint == NAME else f for gv, f in MODULE.functions_items()}
    return type(MODULE)(functions, attrs=MODULE.attrs)
