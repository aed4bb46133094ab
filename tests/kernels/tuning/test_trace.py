"""Schedules as text: what is written down is what is applied, and it computes the same."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, s_tir, tirx

from tests.draws import draws
from tests.kernels.helpers import AVX2, TWO_CORES, kernels, model, random
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.block_roles import ACCUMULATE, blocks_of, role_of
from tvm_hetero.kernels.tir.implementation_attr import with_implementation
from tvm_hetero.kernels.tuning.search_space import find_variations
from tvm_hetero.kernels.tuning.trace import apply_trace, facts_text, replay_trace, trace_text
from tvm_hetero.passes.lower_to_tasks import LowerToTasks


@pytest.fixture(scope="module")
def convolution() -> tirx.PrimFunc:
    weight = relax.const(random(0, 24, 8, 3, 3))
    mod = model([(1, 8, 11, 13)], lambda x: relax.op.nn.conv2d(x, weight, padding=1))
    (func,) = kernels(LowerToTasks([AVX2])(mod)).values()
    return func


def run(func: tirx.PrimFunc) -> np.ndarray:
    module = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    args = [
        tvm.runtime.tensor(random(i, *[int(e) for e in p.ty.shape]))
        for i, p in enumerate(func.params)
    ]
    tvm.runtime.Executable(build(module, AVX2)).jit()["main"](*args)
    return args[-1].numpy()


@pytest.mark.parametrize("target", [AVX2, TWO_CORES])
def test_variations_are_distinct_and_compute_the_same(
    convolution: tirx.PrimFunc, target: tvm.target.Target
) -> None:
    found = list(islice(find_variations(convolution, target), 4))
    assert found == list(islice(find_variations(convolution, target), 4))
    texts = [facts_text(rule, facts) for rule, facts in found]
    scheduled = [apply_trace(convolution, text, target) for text in texts]
    by_rule = schedule_kernel(convolution, target)
    assert len({tvm_ffi.structural_hash(func) for func in [*scheduled, by_rule]}) == 5
    expected = run(convolution)
    for func in scheduled:
        np.testing.assert_allclose(run(func), expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=draws(6), derandomize=True, deadline=None)
@given(
    channels=st.tuples(st.integers(1, 20), st.integers(1, 40)),
    size=st.tuples(st.integers(3, 14), st.integers(3, 14)),
    window=st.sampled_from([1, 3]),
    stride=st.sampled_from([1, 2]),
    number=st.integers(0, 5),
)
def test_no_facts_make_a_rule_wrong(
    channels: tuple[int, int], size: tuple[int, int], window: int, stride: int, number: int
) -> None:
    weight = relax.const(random(0, channels[1], channels[0], window, window))
    mod = model(
        [(1, channels[0], *size)],
        lambda x: relax.op.nn.relu(
            relax.op.nn.conv2d(x, weight, strides=stride, padding=window // 2)
        ),
    )
    for func in kernels(LowerToTasks([AVX2])(mod)).values():
        for rule, facts in islice(find_variations(func, AVX2), number, number + 1):
            varied = apply_trace(func, facts_text(rule, facts), AVX2)
            np.testing.assert_allclose(run(varied), run(func), rtol=1e-4, atol=1e-4)


def test_a_trace_gives_the_schedule_again(convolution: tirx.PrimFunc) -> None:
    sch = s_tir.Schedule(tvm.IRModule({"main": convolution}))
    block = next(b for b in blocks_of(sch) if role_of(sch, b) == ACCUMULATE)
    *_, last = sch.get_loops(block)
    outer, inner = sch.split(last, [None, 4])
    sch.annotate(outer, "numbers", [1, 2])
    sch.annotate(inner, "text", "a")
    sch.annotate(block, "half", 0.5)
    sch.unroll(inner)
    text = trace_text(sch)
    again = replay_trace(convolution, text, AVX2)
    assert again is not None and tvm_ffi.structural_equal(again.mod, sch.mod)
    assert trace_text(again) == text
    tuned = schedule_kernel(with_implementation(convolution, "tuned", text), AVX2)
    assert rule_of(tuned) == "tuned"
    assert replay_trace(convolution, facts_text("packed", {}), AVX2) is None


def test_words_of_a_trace_that_does_not_apply_are_shown_safely(convolution: tirx.PrimFunc) -> None:
    text = json.dumps([[["\u202eGetBlock", [], [], []]], []])
    with pytest.warns(UserWarning, match=r"does not apply .*\\u202eGetBlock") as told:
        schedule_kernel(with_implementation(convolution, "tuned", text), AVX2)
    assert all(str(each.message).isprintable() for each in told)


@pytest.mark.parametrize(
    "text",
    [
        "not even JSON",
        "[]",
        '[[["GetSBlock",[],["no such block","main"],["b0"]]],[]]',
        '{"rule":"no such rule","facts":{}}',
        '{"rule":"packed","facts":{"no such fact":1}}',
    ],
)
def test_what_does_not_apply_leaves_the_kernel_to_the_rule(
    convolution: tirx.PrimFunc, text: str
) -> None:
    with pytest.warns(UserWarning, match="does not apply"):
        func = schedule_kernel(with_implementation(convolution, "tuned", text), AVX2)
    assert tvm_ffi.structural_equal(func, schedule_kernel(convolution, AVX2))
