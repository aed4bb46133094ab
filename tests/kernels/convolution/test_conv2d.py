"""Convolutions with constant weights: what is built, and that it computes a convolution."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, tirx

from tests.draws import draws
from tests.kernels.helpers import (
    AVX2,
    AVX512,
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


def conv(channels, out_channels, kernel, stride=1, padding=0, groups=1, epilogue=True, dilation=1):
    weight = relax.const(random(7, out_channels, channels // groups, *kernel))
    bias = relax.const(random(8, 1, out_channels, 1, 1))

    def body(x, *residual):
        y = relax.op.nn.conv2d(x, weight, stride, padding, dilation, groups)
        y = relax.op.add(y, bias) if epilogue else y
        for r in residual:
            y = relax.op.add(y, r)
        return relax.op.nn.relu(y) if epilogue else y

    return body


CASES = {
    "1x1 rows joined": ((1, 8, 7, 7), conv(8, 32, (1, 1))),
    "1x1 strided": ((1, 8, 9, 9), conv(8, 32, (1, 1), stride=2)),
    "1x1 points padded": ((1, 8, 13, 13), conv(8, 40, (1, 1))),
    "out channels not a multiple of 16": ((1, 8, 6, 6), conv(8, 50, (1, 1))),
    "3x3 padded": ((1, 5, 14, 14), conv(5, 32, (3, 3), padding=1)),
    "3x3 points as lanes": ((1, 3, 32, 32), conv(3, 16, (3, 3), padding=1)),
    "7x7 stride 2, 3 channels": ((1, 3, 30, 30), conv(3, 16, (7, 7), 2, 3)),
    "11x11 stride 4, no padding": ((1, 3, 43, 43), conv(3, 16, (11, 11), 4)),
    "prime width": ((1, 4, 37, 37), conv(4, 16, (3, 3))),
    "uneven padding": ((1, 4, 12, 12), conv(4, 16, (3, 3), 2, (0, 0, 1, 1))),
    "grouped, 34 channels a group": ((1, 68, 7, 7), conv(68, 68, (1, 1), groups=2)),
    "grouped, 16 channels a group": ((1, 8, 9, 9), conv(8, 32, (5, 5), padding=2, groups=2)),
    "grouped, 17 channels a group": ((1, 68, 9, 9), conv(68, 34, (3, 3), padding=1, groups=2)),
    "grouped, fewer points than lanes": ((1, 12, 3, 3), conv(12, 18, (1, 1), groups=3)),
    "1x1 with padding after the image": ((1, 8, 6, 6), conv(8, 16, (1, 1), 1, (0, 0, 1, 1))),
    "dilated": ((1, 4, 20, 20), conv(4, 32, (3, 3), padding=2, dilation=2)),
    "dilated and strided": ((1, 4, 21, 20), conv(4, 16, (3, 2), (2, 3), 2, dilation=(3, 2))),
    "last tile overlaps": ((1, 4, 27, 27), conv(4, 64, (1, 1))),
    "last tile of rows overlaps": ((1, 4, 19, 19), conv(4, 64, (3, 3), padding=1)),
    "near weights, far data": ((1, 40, 64, 64), conv(40, 32, (1, 1))),
    "several images": ((3, 4, 8, 8), conv(4, 32, (3, 3), padding=1)),
    "one output": ((1, 4, 3, 3), conv(4, 3, (3, 3))),
    "no epilogue": ((1, 4, 8, 8), conv(4, 32, (3, 3), padding=1, epilogue=False)),
    "one column": ((1, 8, 40, 1), conv(8, 32, (5, 1))),
    "one column, padded, strided, dilated": (
        (2, 8, 41, 1),
        conv(8, 32, (3, 1), 2, (2, 0), 1, dilation=2),
    ),
    "windows of one column": ((1, 8, 17, 17), conv(8, 32, (7, 1), padding=(3, 0))),
    "windows of one column, uneven": ((1, 8, 12, 5), conv(8, 40, (2, 1), 1, (1, 0, 2, 0))),
    "windows of one column, grouped": (
        (1, 8, 14, 3),
        conv(8, 32, (3, 1), 1, (2, 0), 2, dilation=(2, 1)),
    ),
    "windows of one column, rows strided": ((1, 8, 15, 6), conv(8, 32, (3, 1), (2, 1), (1, 0))),
    "windows of one column, padded columns": ((1, 8, 9, 6), conv(8, 32, (3, 1), 1, (1, 1))),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    shape, body = CASES[name]
    check([shape], body)


def test_windows_of_one_column_join_rows():
    """Rows of one value filled no vector: 512 of them ran at a third of the speed."""
    lowered = LowerToTasks([AVX512])(model([(1, 8, 48, 1)], conv(8, 32, (5, 1))))
    (kernel,) = kernels(lowered).values()
    assert rule_of(schedule_kernel(kernel, AVX512)) == "packed"
    (sums,) = re.findall(r"accumulate = T.sblock_alloc_buffer\(\((.*?)\)\)\n", kernel.script())
    assert "T.int64(44)" in sums  # all rows are points of one line


def test_residual_is_fused():
    lowered = check([(1, 8, 7, 7), (1, 32, 7, 7)], conv(8, 32, (1, 1)))
    assert len(kernels(lowered)) == 1


@settings(max_examples=draws(5), deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 2),
    group=st.integers(2, 6),
    per_group=st.integers(1, 40),
    groups=st.sampled_from([1, 1, 2, 3]),
    size=st.tuples(st.integers(7, 18), st.integers(7, 40)),
    kernel=st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 3, 4])),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
)
def test_any_convolution(batch, group, per_group, groups, size, kernel, stride, dilation, padding):
    body = conv(
        group * groups, per_group * groups, kernel, stride, padding, groups, dilation=dilation
    )
    height, width = (
        max(n, (k - 1) * d + 1) for n, k, d in zip(size, kernel, dilation, strict=True)
    )
    lowered = check([(batch, group * groups, height, width)], body, [AVX512, SSE])
    # Of fewer channels than a vector has, half a block may be padding.
    rules = {rule_of(schedule_kernel(f, AVX2)) for f in kernels(lowered).values()}
    assert rules == {"packed"} or (per_group <= 8 and rules == {"generic"})


@pytest.mark.parametrize("channels", [1, 2, 3, 7])
def test_few_output_channels_are_not_padded(channels):
    """Depth, masks, colours: sixteen channels for one would be sixteen times the work."""
    lowered = check([(1, 8, 12, 20)], conv(8, channels, (3, 3), padding=1), [AVX512, AVX2, SSE])
    for target in (AVX512, AVX2, SSE):
        rules = {rule_of(schedule_kernel(f, target)) for f in kernels(lowered).values()}
        assert rules == {"packed"}


def test_two_cores():
    check([(1, 8, 14, 14)], conv(8, 64, (3, 3), padding=1), targets=[TWO_CORES])
    check([(1, 8, 7, 7)], conv(8, 64, (1, 1)), targets=[TWO_CORES])
    check([(1, 8, 27, 27)], conv(8, 16, (1, 1)), targets=[TWO_CORES])
    check([(2, 8, 30, 30)], conv(8, 32, (3, 3), 2, 1), targets=[TWO_CORES])


def test_a_strided_image_is_padded_channel_by_channel():
    """A whole padded image between two copies is memory written and read once more."""
    lowered = LowerToTasks([AVX512])(model([(1, 4, 40, 40)], conv(4, 32, (3, 3), 2, 1)))
    (kernel,) = kernels(lowered).values()
    loops = []

    def visit(node):
        names = re.findall(r'T.sblock\("(\w+?)"\)', str(node))
        loops.append({name.partition("_")[0] for name in names})

    tvm_ffi.structural_walk(schedule_kernel(kernel, AVX512).body, (tirx.For, visit))
    assert {"pad", "gather"} in loops


def test_weights_are_packed_once_for_all_targets():
    """One layout for AVX-512 and AVX2: blocks that are whole vectors of both."""
    mod = model([(1, 8, 14, 14)], conv(8, 64, (3, 3), padding=1))
    (kernel,) = kernels(LowerToTasks([AVX512, AVX2])(mod)).values()
    packed = next(p for p in kernel.params if len(p.shape) == 5)
    blocks, channels, kh, kw, block = (int(e) for e in packed.shape)
    assert (channels, kh, kw) == (8, 3, 3)
    assert blocks * block == 64
    assert block % 16 == 0


@pytest.mark.parametrize(("target", "lanes"), [(AVX512, 16), (AVX2, 8)], ids=["v4", "v3"])
def test_schedule_fits_the_target(target, lanes):
    """The same kernel gets vectors of the target's width, accumulators in local memory."""
    mod = model([(1, 8, 14, 14)], conv(8, 64, (3, 3), padding=1))
    (kernel,) = kernels(LowerToTasks([AVX512, AVX2])(mod)).values()
    text = schedule_kernel(kernel, target).script()
    assert f"T.vectorized(T.int64({lanes}))" in text
    assert f"T.vectorized(T.int64({24 - lanes}))" not in text
    assert 'scope="local"' in text
    assert "if_then_else" not in text  # padding is a fill and a copy
    assert "T.parallel" not in text


@pytest.mark.parametrize(
    ("channels", "size", "out_channels", "outermost"),
    [
        (64, 28, 128, "block"),  # the data stay in the second-level cache
        (256, 56, 128, "tile"),  # they do not
        (16, 112, 96, "block"),  # nor do these, but what is written is six times as much
    ],
)
def test_data_are_read_once_unless_that_scatters_more(channels, size, out_channels, outermost):
    mod = model([(1, channels, size, size)], conv(channels, out_channels, (1, 1), epilogue=False))
    (kernel,) = kernels(LowerToTasks([AVX512])(mod)).values()
    text = schedule_kernel(kernel, AVX512).script()
    ((first, second),) = re.findall(r"for b, (\w+), (\w+) in T.grid", text)
    assert (first, second) == (("o", "p_0") if outermost == "block" else ("p_0", "o"))


def conv1d(stride, padding, dilation=1, groups=1, kernel=3):
    weight = relax.const(random(7, 24, 8 // groups, kernel))

    def body(x):
        y = relax.op.nn.conv1d(x, weight, stride, padding, dilation, groups)
        return relax.op.nn.relu(relax.op.add(y, relax.const(random(8, 1, 24, 1))))

    return body


@pytest.mark.parametrize(
    "arguments",
    [(1, 0), (1, 1), (2, (1, 2)), (1, 2, 2, 2), (1, 0, 1, 1, 1), (3, 0, 1, 1, 1)],
    ids=str,
)
def test_one_dimension(arguments):
    lowered = check([(2, 8, 37)], conv1d(*arguments))
    (kernel,) = kernels(lowered).values()
    assert rule_of(schedule_kernel(kernel, AVX512)) == "packed"


def test_channels_of_sound_do_not_share_one_set_of_the_cache():
    lowered = check([(1, 8, 960)], conv1d(1, 32, 32))
    (kernel,) = kernels(lowered).values()
    assert "T.int64(1104)" in kernel.script()  # 1024 padded columns, and 80 that no one reads


W = relax.const(random(1, 12, 6, 3, 3))
FALL_BACK = {
    "variable weights": (
        [(1, 6, 8, 8), (12, 6, 3, 3)],
        lambda x, w: relax.op.nn.conv2d(x, w, padding=1),
    ),
    "NHWC": (
        [(1, 8, 8, 6)],
        lambda x: relax.op.nn.conv2d(x, W, padding=1, data_layout="NHWC", kernel_layout="OIHW"),
    ),
}


@pytest.mark.parametrize("name", FALL_BACK)
def test_what_is_not_ours_is_right_too(name):
    shapes, body = FALL_BACK[name]
    lowered = check(shapes, body)
    rules = {rule_of(schedule_kernel(f, AVX512)) for f in kernels(lowered).values()}
    assert not rules & {"packed", "depthwise"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_narrow_weights_compile_and_are_right(dtype):
    values = np.random.default_rng(0).integers(-3, 4, (16, 5, 3, 3)).astype(np.float32)
    data = np.random.default_rng(1).integers(-3, 4, (1, 5, 9, 9)).astype(np.float32)
    weight = relax.const(values.astype(dtype if dtype != "bfloat16" else ml_dtypes.bfloat16))
    out_dtype = "int32" if dtype == "int8" else dtype

    def body(x):
        y = relax.op.nn.conv2d(relax.op.astype(x, dtype), weight, padding=1, out_dtype=out_dtype)
        return relax.op.astype(y, "float32")

    lowered = LowerToTasks([AVX512, AVX2])(model([data.shape], body))
    rules = {rule_of(schedule_kernel(f, AVX512)) for f in kernels(lowered).values()}
    assert bool(rules & {"packed", "winograd"}) == (
        dtype != "int8"
    )  # whole numbers: TVM's own loop nest
    expected = check_reference(data, values)
    for target in (t for t in (AVX512, AVX2) if runs_here(t)):
        actual = run(scheduled(lowered, target), target, data)
        np.testing.assert_allclose(actual, expected, rtol=1e-2 if dtype == "bfloat16" else 1e-3)


def test_what_follows_a_convolution_of_float16_is_one_kernel_with_it():
    """Bias, activation and conversions: only the image itself is converted by a kernel alone."""
    first, second = (random(i, 16, 16, 1, 1).astype("float16") for i in (1, 2))
    bias = random(3, 1, 16, 1, 1).astype("float16")

    def body(x):
        y = relax.op.nn.conv2d(relax.op.astype(x, "float16"), relax.const(first))
        y = relax.op.nn.relu(relax.op.add(y, relax.const(bias)))
        return relax.op.astype(relax.op.nn.conv2d(y, relax.const(second)), "float32")

    lowered = LowerToTasks([AVX2])(model([(1, 16, 6, 6)], body))
    rules = sorted(rule_of(schedule_kernel(f, AVX2)) for f in kernels(lowered).values())
    assert rules == ["generic", "packed", "packed"]
    x = random(4, 1, 16, 6, 6)
    actual = run(scheduled(lowered, AVX2), AVX2, x)
    y = np.einsum("oi,nihw->nohw", np.float32(first[:, :, 0, 0]), x.astype("float16"))
    y = np.maximum(y.astype("float16") + bias, np.float16(0))
    expected = np.einsum("oi,nihw->nohw", np.float32(second[:, :, 0, 0]), y)
    np.testing.assert_allclose(actual, expected, rtol=1e-2, atol=2e-2)


def check_reference(data, weight):
    """A 3x3 convolution with padding 1 in numpy."""
    padded = np.pad(data[0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return np.einsum("cyxhw,ochw->oyx", windows, weight)[None]


@pytest.mark.parametrize("target", [AVX2, SSE])
def test_parts_of_a_block_that_are_padding_are_left_to_another_rule(target):
    """They were unpacked from accumulators of another part: right by luck, mostly."""
    body = conv(4, 3, (3, 3))  # to few points in a row: where they fill vectors no block is padded
    mod = LowerToTasks([AVX512, AVX2, SSE])(model([(1, 4, 9, 9)], body))
    assert {rule_of(schedule_kernel(f, target)) for f in kernels(mod).values()} == {"generic"}


# Each two of groups, piece and rows come together.
@pytest.mark.parametrize(
    ("groups", "begin", "end", "rows"),
    [
        (groups, *piece, 5 if (i + j) % 2 else 1)
        for i, groups in enumerate([1, 2, 8, 32])
        for j, piece in enumerate([(0, 24), (1, 25), (0, 22), (3, 20)])
    ],
)
def test_of_what_is_cut_off_nothing_is_written(groups, begin, end, rows):
    """A tile that overlaps its neighbour ends with the accumulators, which may be more points."""
    whole = conv(32, 128, (1, 4), padding=(0, 2, 0, 2), groups=groups, epilogue=False)

    def body(x):
        return relax.op.strided_slice(whole(x), [3], [begin], [end])

    check([(1, 32, rows, 24)], body, [AVX512, AVX2, SSE])
