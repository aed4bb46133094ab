"""Depthwise convolutions: lines of points, planes of strided columns, and what falls back."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.draws import draws
from tests.kernels.helpers import (
    AVX2,
    AVX512,
    REFERENCE,
    SSE,
    TWO_CORES,
    check,
    kernels,
    model,
    random,
    run,
    runs_here,
    scheduled,
)
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks


def depthwise(channels, kernel=(3, 3), stride=1, padding=1, multiplier=1, dilation=1):
    weight = relax.const(random(7, channels * multiplier, 1, *kernel))
    bias = relax.const(random(8, 1, channels * multiplier, 1, 1))

    def body(x, *residual):
        y = relax.op.add(relax.op.nn.conv2d(x, weight, stride, padding, dilation, channels), bias)
        for r in residual:
            y = relax.op.add(y, r)
        return relax.op.clip(y, 0, 6)

    return body


CASES = {
    "rows joined": ((1, 12, 14, 14), depthwise(12), "depthwise"),
    "seven columns": ((2, 5, 7, 7), depthwise(5), "depthwise"),
    "wide": ((1, 3, 9, 40), depthwise(3), "depthwise"),
    "stride 2": ((1, 12, 14, 14), depthwise(12, stride=2), "depthwise"),
    "stride 2, odd": ((1, 4, 15, 15), depthwise(4, stride=2), "depthwise"),
    "stride 2, wide": ((1, 3, 70, 70), depthwise(3, stride=2), "depthwise"),
    "strides differ": ((1, 3, 16, 36), depthwise(3, stride=(3, 2)), "depthwise"),
    "5x5": ((1, 6, 14, 14), depthwise(6, (5, 5), padding=2), "depthwise"),
    "5x5, stride 2": ((1, 6, 14, 14), depthwise(6, (5, 5), 2, 2), "depthwise"),
    "padding after the image": ((1, 6, 16, 16), depthwise(6, stride=2, padding=(0, 0, 1, 1)), None),
    "dilated": ((1, 6, 14, 14), depthwise(6, padding=2, dilation=2), "depthwise"),
    "two outputs a channel": ((1, 6, 14, 14), depthwise(6, multiplier=2), "depthwise"),
    "two outputs, wide": ((1, 2, 5, 40), depthwise(2, multiplier=2), "depthwise"),
    "7x7 in bands": ((1, 4, 40, 40), depthwise(4, (7, 7), padding=3), "depthwise"),
    "bands that overlap": ((2, 3, 23, 37), depthwise(3, (5, 5), padding=2), "depthwise"),
    "bands, two outputs": (
        (1, 3, 18, 20),
        depthwise(3, (5, 3), padding=(2, 1), multiplier=2),
        "depthwise",
    ),
    "bands, uneven padding": (
        (1, 3, 20, 20),
        depthwise(3, (4, 5), padding=(3, 0, 1, 2)),
        "depthwise",
    ),
    "bands, columns dilated": (
        (1, 3, 20, 24),
        depthwise(3, padding=(1, 2), dilation=(1, 2)),
        "depthwise",
    ),
    "bands without padding": ((1, 3, 30, 30), depthwise(3, (7, 7), padding=0), "depthwise"),
    "window too large to be written out": (
        (1, 2, 40, 40),
        depthwise(2, (15, 15), padding=7),
        "depthwise",
    ),
    "rows dilated": ((1, 3, 20, 40), depthwise(3, padding=(2, 1), dilation=(2, 1)), "depthwise"),
    "one row": ((1, 3, 1, 40), depthwise(3, (1, 7), padding=(0, 3)), "depthwise"),
    "no padding": ((1, 6, 14, 14), depthwise(6, padding=0), "generic"),
    "few points": ((1, 6, 3, 3), depthwise(6), "generic"),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    shape, body, rule = CASES[name]
    lowered = check([shape], body, [AVX512, SSE])
    (kernel,) = kernels(lowered).values()  # bias and clip are inside
    rules = {rule_of(schedule_kernel(kernel, target)) for target in (AVX512, AVX2, SSE)}
    assert rule is None or rules == {rule}


@settings(max_examples=draws(5), deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 2),
    channels=st.integers(2, 5),
    multiplier=st.integers(1, 2),
    size=st.tuples(st.integers(5, 20), st.integers(5, 40)),
    kernel=st.tuples(st.sampled_from([1, 3, 5]), st.sampled_from([2, 3, 5])),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    dilation=st.integers(1, 2),
)
def test_any_depthwise(batch, channels, multiplier, size, kernel, stride, padding, dilation):
    fits = all((k - 1) * dilation < n for n, k in zip(size, kernel, strict=True))
    body = depthwise(channels, kernel, stride, padding, multiplier, dilation if fits else 1)
    check([(batch, channels, *size)], body, [AVX512, AVX2])


def test_a_row_of_the_image_is_read_once_for_a_band():
    """The loop over the window's rows has become one over those of the image."""
    (kernel,) = kernels(
        LowerToTasks([AVX512])(model([(1, 4, 40, 40)], CASES["7x7 in bands"][1]))
    ).values()
    text = schedule_kernel(kernel, AVX512).script()
    bands = re.search(r"y_1_init in T.unroll\(T.int64\((\d+)\)\)", text)
    assert bands is not None
    assert f"in T.unroll(T.int64({int(bands[1]) + 6}))" in text
    assert "T.vectorized(T.int64(16))" in text


def test_residual_is_fused():
    lowered = check([(1, 8, 14, 14)] * 2, depthwise(8))
    assert len(kernels(lowered)) == 1


def test_two_cores():
    check([(2, 12, 14, 14)], depthwise(12), targets=[TWO_CORES])
    (kernel,) = kernels(LowerToTasks(None)(model([(1, 12, 14, 14)], depthwise(12)))).values()
    assert "T.parallel" in schedule_kernel(kernel, TWO_CORES).script()


@pytest.mark.parametrize("size", [8, 20], ids=["joined", "bands"])
def test_what_is_beyond_a_row_is_not_read(size):
    """Infinite and undefined values stay in the windows to which they belong."""
    x = random(0, 1, 2, size, size)
    x[0, 0, 3, 7], x[0, 1, 4, 0] = np.inf, np.nan
    mod = model([x.shape], depthwise(2))
    expected = run(mod, REFERENCE, x)
    lowered = LowerToTasks([AVX512, AVX2])(mod)
    for target in (t for t in (AVX512, AVX2) if runs_here(t)):
        actual = run(scheduled(lowered, target), target, x)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
