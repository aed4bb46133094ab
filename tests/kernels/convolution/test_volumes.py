"""Convolutions of volumes are those of plain TVM, and computed by the rules of images."""

from __future__ import annotations

import pytest
from tvm import relax

from tests.kernels.helpers import AVX2, AVX512, check, kernels, model, random
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks


def conv3d(channels, out_channels, window, strides=1, padding=0, dilation=1, groups=1):
    weight = relax.const(random(7, out_channels, channels // groups, *window))
    bias = relax.const(random(8, 1, out_channels, 1, 1, 1))

    def body(x):
        y = relax.op.nn.conv3d(x, weight, strides, padding, dilation, groups)
        return relax.op.nn.relu(relax.op.add(y, bias))

    return body


CASES = {
    "3x3x3": ((1, 4, 5, 8, 8), conv3d(4, 16, (3, 3, 3), padding=1)),
    "two volumes, strided": ((2, 4, 7, 9, 9), conv3d(4, 16, (3, 3, 3), 2, 1)),
    "uneven": ((1, 4, 6, 9, 8), conv3d(4, 16, (2, 3, 1), (2, 1, 2), (1, 0, 0, 2, 1, 0))),
    "dilated": ((1, 4, 9, 9, 9), conv3d(4, 16, (3, 3, 3), 1, 2, 2)),
    "groups": ((1, 8, 5, 6, 6), conv3d(8, 32, (3, 3, 3), padding=1, groups=2)),
    "one plane": ((1, 4, 5, 8, 8), conv3d(4, 16, (1, 3, 3), padding=(0, 1, 1))),
    "3x1x1": ((1, 8, 6, 4, 5), conv3d(8, 16, (3, 1, 1), (2, 1, 1), (1, 0, 0))),
    "1x1x1": ((2, 8, 4, 4, 4), conv3d(8, 16, (1, 1, 1))),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_plain_tvm(name):
    shape, body = CASES[name]
    lowered = check([shape], body)
    rules = {rule_of(schedule_kernel(f, AVX512)) for f in kernels(lowered).values()}
    assert rules & {"packed", "winograd"}


def test_windows_of_one_value_a_plane_copy_nothing():
    """One kernel of a convolution, and one of what follows it."""
    shape, body = CASES["3x1x1"]
    lowered = LowerToTasks([AVX2])(model([shape], body))
    assert len(kernels(lowered)) == 2


def test_each_channel_alone_is_right_too():
    check([(1, 6, 5, 5, 5)], conv3d(6, 6, (3, 3, 3), padding=1, groups=6))
