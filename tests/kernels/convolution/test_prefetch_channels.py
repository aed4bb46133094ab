"""Convolutions whose data are far away ask for those of later channels, and compute the same."""

from __future__ import annotations

import re

import pytest
from tvm import relax

from tests.kernels.helpers import (
    AVX512,
    assert_sums_stay_in_registers,
    check,
    kernels,
    model,
    random,
)
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

# Channels, rows and columns of images that do not fit half of a second-level cache.
FAR, NEAR = (1, 96, 58, 58), (1, 96, 28, 28)


def scheduled_conv(shape, window, strides=1, padding=0, groups=1):
    """The scheduled kernel of a convolution to 64 channels."""
    weight = relax.const(random(1, 64, shape[1] // groups, window, window))
    lowered = LowerToTasks([AVX512], plain_sums=True)(
        model([shape], lambda x: relax.op.nn.conv2d(
            x, weight, strides=strides, padding=padding, groups=groups
        ))
    )  # fmt: skip
    (kernel,) = kernels(lowered).values()
    return schedule_kernel(kernel, AVX512)


def asked(kernel) -> list[str]:
    """What of the data a kernel asks for, innermost index last."""
    found = re.findall(r"llvm\.prefetch\", T\.address_of\((\w+)\[(.*)\]\), 0, 3", kernel.script())
    return [indices for name, indices in found if name != "B"]


@pytest.mark.parametrize("shape, count", [(FAR, 1), (NEAR, 0)])
def test_only_data_that_are_far_are_asked_for(shape, count):
    """Of a 3x3 window the last row, in one line of 16 values."""
    lines = asked(scheduled_conv(shape, 3, padding=1))
    assert len(lines) == count
    assert all("y + T.int64(2)" in line for line in lines)


@pytest.mark.parametrize(
    "window, strides, rows",
    [(3, 1, {2}), (5, 1, {4}), (5, 3, {2, 3, 4}), (3, 3, {0, 1, 2})],
)
def test_a_row_asks_for_what_the_row_above_did_not_read(window, strides, rows):
    lines = asked(scheduled_conv((1, 96, 120, 120), window, strides))
    found = set()
    for line in lines:
        row = re.search(r"\by(?: \* T\.int64\(\d+\))?(?: \+ T\.int64\((\d+)\))?,", line)
        assert row, line
        found.add(int(row[1] or 0))
    assert found == rows


@pytest.mark.parametrize("dilation", [64, 1024])
def test_between_the_columns_of_a_dilated_window_nothing_is_asked_for(dilation):
    """Of three columns far apart one line each, or two where a tile is wider than one."""
    weight = relax.const(random(1, 64, 96, 3))

    def body(x):
        return relax.op.nn.conv1d(x, weight, padding=dilation, dilation=dilation)

    (kernel,) = kernels(LowerToTasks([AVX512])(model([(1, 96, 8192)], body))).values()
    assert 3 <= len(asked(schedule_kernel(kernel, AVX512))) <= 6


def test_behind_the_last_channel_the_next_tile_is_asked_for():
    (line,) = asked(scheduled_conv(FAR, 3, padding=1))
    over = r"T\.Select\(T\.int64\(92\) <= ic, T\.int64\(1\), T\.int64\(0\)\)"
    assert re.search(rf", ic \+ T\.int64\(4\) - {over} \* T\.int64\(96\), y", line)
    assert re.search(rf"x_0 \* T\.int64\((\d+)\) \+ {over} \* T\.int64\(\1\) \+", line)


def test_short_reductions_ask_for_nothing():
    assert not asked(scheduled_conv((1, 8, 256, 256), 1))


@pytest.mark.parametrize("window, strides", [(1, 1), (3, 1), (3, 2)])
def test_accumulators_stay_in_registers(window, strides):
    kernel = scheduled_conv((1, 128, 114, 114), window, strides)
    assert_sums_stay_in_registers(kernel, AVX512)


@pytest.mark.parametrize(
    "window, strides, padding, groups",
    [(1, 1, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (5, 1, 2, 2), (3, 3, 0, 1)],
)
def test_results_are_those_of_tvm(window, strides, padding, groups):
    weight = relax.const(random(1, 64, FAR[1] // groups, window, window))
    check(
        [FAR],
        lambda x: relax.op.nn.conv2d(x, weight, strides=strides, padding=padding, groups=groups),
    )
