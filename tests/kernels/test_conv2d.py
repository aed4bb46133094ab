"""Convolutions with constant weights: what is built, and that it computes a convolution."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.kernels.helpers import AVX2, AVX512, TWO_CORES, check, kernels, model, random
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks


def conv(channels, out_channels, kernel, stride=1, padding=0, groups=1, epilogue=True):
    weight = relax.const(random(7, out_channels, channels // groups, *kernel))
    bias = relax.const(random(8, 1, out_channels, 1, 1))

    def body(x, *residual):
        y = relax.op.nn.conv2d(x, weight, stride, padding, 1, groups)
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
    "depthwise": ((1, 12, 14, 14), conv(12, 12, (3, 3), padding=1, groups=12)),
    "depthwise strided": ((1, 12, 15, 15), conv(12, 12, (3, 3), 2, 1, groups=12)),
    "several images": ((3, 4, 8, 8), conv(4, 32, (3, 3), padding=1)),
    "one output": ((1, 4, 3, 3), conv(4, 3, (3, 3))),
    "no epilogue": ((1, 4, 8, 8), conv(4, 32, (3, 3), padding=1, epilogue=False)),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    shape, body = CASES[name]
    check([shape], body)


def test_residual_is_fused():
    lowered = check([(1, 8, 7, 7), (1, 32, 7, 7)], conv(8, 32, (1, 1)))
    assert len(kernels(lowered)) == 1


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 2),
    group=st.integers(1, 6),
    per_group=st.integers(1, 40),
    groups=st.sampled_from([1, 1, 2, 3]),
    size=st.integers(5, 18),
    kernel=st.tuples(st.sampled_from([1, 2, 3, 5]), st.sampled_from([1, 3, 4])),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
)
def test_any_convolution(batch, group, per_group, groups, size, kernel, stride, padding):
    body = conv(group * groups, per_group * groups, kernel, stride, padding, groups)
    check([(batch, group * groups, size, size)], body)


def test_two_cores():
    check([(1, 8, 14, 14)], conv(8, 64, (3, 3), padding=1), targets=[TWO_CORES])
    check([(1, 8, 7, 7)], conv(8, 64, (1, 1)), targets=[TWO_CORES])


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
