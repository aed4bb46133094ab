"""Transposed convolutions are those of plain TVM, and computed by the rules of convolutions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.draws import draws
from tests.kernels.helpers import AVX2, AVX512, check, kernels, model, random
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

op = relax.op.nn


def transposed(channels, out_channels, window, stride=2, padding=0, groups=1, more=0):
    """With a bias and an activation behind it; an image or, with one extent, a sound."""
    rank = len(window)
    weight = relax.const(random(7, channels, out_channels // groups, *window))
    bias = relax.const(random(8, 1, out_channels, *[1] * rank))
    operator = op.conv1d_transpose if rank == 1 else op.conv2d_transpose

    def body(x):
        y = operator(x, weight, stride, padding, more, groups=groups)
        return op.relu(relax.op.add(y, bias))

    return body


CASES = {
    "4x4 stride 2": ((1, 8, 7, 7), transposed(8, 16, (4, 4), 2, 1)),
    "2x2 stride 2": ((2, 8, 5, 6), transposed(8, 16, (2, 2))),
    "3x3 stride 2 with more rows": ((1, 8, 6, 5), transposed(8, 16, (3, 3), 2, 1, more=1)),
    "3x3 stride 1": ((1, 8, 6, 6), transposed(8, 16, (3, 3), 1, 1)),
    "1x1 stride 3, holes of zeros": ((1, 8, 4, 4), transposed(8, 16, (1, 1), 3, more=2)),
    "uneven": ((1, 8, 5, 6), transposed(8, 16, (5, 4), (3, 2), (0, 2, 1, 0))),
    "padding beyond a phase": ((1, 8, 9, 9), transposed(8, 16, (2, 5), 2, (3, 4, 2, 3))),
    "groups": ((1, 8, 6, 6), transposed(8, 16, (4, 4), 2, 1, groups=2)),
    "sound": ((1, 8, 20), transposed(8, 12, (16,), 8, 4)),
    "sound with more behind": ((1, 8, 20), transposed(8, 12, (5,), 3, 0, more=2)),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    shape, body = CASES[name]
    lowered = check([shape], body)
    rules = {rule_of(schedule_kernel(f, AVX512)) for f in kernels(lowered).values()}
    assert rules & {"packed", "winograd"}


@settings(max_examples=draws(5), deadline=None, derandomize=True)
@given(
    size=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    window=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    stride=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    more=st.integers(0, 1),
)
def test_any_extents(size, window, stride, padding, more):
    results = [
        (n - 1) * s + k - before - behind
        for n, k, s, before, behind in zip(
            size, window, stride, padding[:2], padding[2:], strict=True
        )
    ]
    if min(results) < 1 or more >= min(stride):
        return
    check([(1, 4, *size)], transposed(4, 16, window, stride, padding, more=more))


def test_each_channel_alone_is_right_too():
    """Upscaling by a constant window: a group for each channel."""
    check([(1, 6, 5, 5)], transposed(6, 6, (4, 4), 2, 1, groups=6))


@pytest.mark.parametrize("dilation", [2, (1, 3)])
def test_dilated_ones_are_left_to_tvm(dilation):
    weight = relax.const(random(1, 8, 16, 3, 3))
    lowered = LowerToTasks([AVX2])(
        model([(1, 8, 6, 6)], lambda x: op.conv2d_transpose(x, weight, 2, dilation=dilation))
    )
    assert [rule_of(schedule_kernel(f, AVX2)) for f in kernels(lowered).values()] == ["generic"]
