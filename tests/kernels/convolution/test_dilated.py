"""Dilated convolutions of 3x3 windows: taken apart where tiles gain, and right either way."""

from __future__ import annotations

import pytest

from tests.kernels.convolution.test_conv2d import conv
from tests.kernels.helpers import AVX2, AVX512, check, kernels, model
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

CASES = {
    "rows only": ((1, 32, 26, 24), conv(32, 64, (3, 3), 1, 1, dilation=(2, 1))),
    "columns only": ((1, 32, 24, 26), conv(32, 64, (3, 3), 1, 1, dilation=(1, 2))),
    "both, odd extents": ((2, 32, 23, 29), conv(32, 64, (3, 3), 1, 2, dilation=2)),
    "no padding": ((1, 32, 36, 36), conv(32, 64, (3, 3), 1, 0, dilation=2)),
    "uneven padding": ((1, 32, 27, 33), conv(32, 64, (3, 3), 1, (5, 0, 4, 3), dilation=2)),
}  # fmt: skip


def rules(shape, body, **how):
    lowered = LowerToTasks([AVX512, AVX2], **how)(model([shape], body))
    return sorted(rule_of(schedule_kernel(f, AVX512)) for f in kernels(lowered).values())


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    shape, body = CASES[name]
    check([shape], body)
    assert "winograd" in rules(shape, body)


def test_what_follows_joins_the_copy_of_the_results():
    """Bias and activation are no kernel more: apart, tiles, together."""
    shape, body = CASES["both, odd extents"]
    assert rules(shape, body) == ["generic", "generic", "winograd"]


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        ((1, 8, 24, 24), conv(8, 32, (3, 3), 1, 2, dilation=2)),  # half a vector of channels
        ((1, 32, 24, 24), conv(32, 32, (3, 3), 2, 2, dilation=2)),
        ((1, 64, 24, 24), conv(64, 64, (3, 3), 1, 2, 2, dilation=2)),
        ((1, 32, 24, 24), conv(32, 32, (5, 3), 1, 2, dilation=2)),
        ((1, 32, 5, 5), conv(32, 32, (3, 3), 1, 4, dilation=4)),  # tiles would be mostly zeros
    ],
    ids=["channels", "strided", "groups", "5x3", "small"],
)
def test_others_are_summed_as_they_are_written(shape, body):
    assert rules(shape, body) == ["packed"]


def test_plain_sums_are_asked_for():
    shape, body = CASES["rows only"]
    assert rules(shape, body, plain_sums=True) == ["packed"]
