"""Transposed convolutions as convolutions of the image as it is, whose results are put in order.

Problem
    To result ``y`` of a transposed convolution with stride s and padding p belong all ``x, k``
    with ``x s + k = y + p``: of a window of K values only every s-th. As a convolution of an image
    with zeros in it, s^2 - 1 of s^2 products are zero.

Answer, for each dimension alone
    Results ``y + p = q s + r`` of one phase r need the values ``k = s j + r`` of the window, and of
    the image ``x = q - j``: a convolution without stride, by a window of ``J = ceil(K / s)``. All
    phases together are one convolution with s times the channels, and a K that s does not divide
    counts as one with zeros behind it.

        part[r, o, q] = sum over i, j < J: image[i, q - j] * weight[i, o, s j + r]
        result[o, y]  = part[(y + p) mod s, o, (y + p) div s]

The convolution is as quick as any other; to put its parts in order is a kernel of its own, with
which bias and activation are fused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, te, tirx

from tvm_hetero.kernels.tir.array_values import constant_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LAYOUTS = {
    "relax.nn.conv1d_transpose": ("NCW", "IOW", relax.op.nn.conv1d),
    "relax.nn.conv2d_transpose": ("NCHW", "IOHW", relax.op.nn.conv2d),
}


@dataclass(frozen=True)
class _TransposedAxis:
    """One dimension: of the image, the window, the stride, padding before, and of the result."""

    extent: int
    window: int
    stride: int
    before: int
    result: int

    @property
    def taps(self) -> int:
        """J, the window of each phase."""
        return -(-self.window // self.stride)

    @property
    def first(self) -> int:
        """The least q that a result needs; before it are only zeros if it is more than J - 1."""
        return min(self.before // self.stride, self.taps - 1)

    @property
    def offset(self) -> int:
        """What is added to a result's place to find it among the parts."""
        return self.before - self.first * self.stride

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros before and behind the image, so that all parts that a result needs are there."""
        parts = -(-(self.offset + self.result) // self.stride)
        before = self.taps - 1 - self.first
        return before, max(0, parts - (self.extent + before - self.taps + 1))


@dataclass(frozen=True)
class PhaseConvolution:
    """The convolution that computes all phases, and how its results are put in order."""

    call: relax.Call
    axes: tuple[_TransposedAxis, ...]
    groups: int
    channels: int

    def in_order(self, bb: relax.BlockBuilder, parts: relax.Expr) -> relax.Expr:
        """The result of the transposed convolution, from that of `call`."""
        return bb.call_te(self._interleaved, parts, primfunc_name_hint="interleave")

    def _interleaved(self, parts: te.Tensor) -> te.Tensor:
        axes, per_group = self.axes, self.channels // self.groups
        phases = int(np.prod([axis.stride for axis in axes]))
        places = [tirx.const(axis.offset, "int64") for axis in axes]

        def read(n: Any, c: Any, *at: Any) -> Any:
            shifted = [i + place for i, place in zip(at, places, strict=True)]
            phase: Any = 0
            for axis, i in zip(axes, shifted, strict=True):
                phase = phase * axis.stride + i % axis.stride
            channel = (c // per_group * phases + phase) * per_group + c % per_group
            within = [i // axis.stride for axis, i in zip(axes, shifted, strict=True)]
            return parts[n, channel, *within]

        shape = (parts.shape[0], self.channels, *(axis.result for axis in axes))
        return te.compute(shape, read, name="interleave")


def as_convolution(
    bb: relax.BlockBuilder, call: relax.Call, weight: NDArray[Any]
) -> PhaseConvolution | None:
    """The transposed convolution as one without stride, or None where this does not fit.

    Parameters
    ----------
    bb
        Infers the type of the convolution.
    call
        A call of ``relax.nn.conv1d_transpose`` or ``relax.nn.conv2d_transpose``.
    weight
        Its weights, ``[I, O / groups, ...]``.
    """
    layout, kernel_layout, convolution = _LAYOUTS[call.op.name]
    attrs, data, groups = call.attrs, call.args[0], int(call.attrs.groups)
    fits = (
        attrs.data_layout == layout
        and attrs.kernel_layout == kernel_layout
        and str(attrs.out_layout) in ("", layout)
        and str(data.ty.dtype) == str(call.ty.dtype)
        and all(int(d) == 1 for d in attrs.dilation)
        and data.ty.shape is not None
        and all(isinstance(e, int | tirx.IntImm) for e in data.ty.shape)
    )
    if not fits:
        return None
    rank = len(layout) - 2
    extents, results = list(data.ty.shape)[2:], list(call.ty.shape)[2:]
    axes = tuple(
        _TransposedAxis(int(e), int(k), int(s), int(p), int(y))
        for e, k, s, p, y in zip(
            extents, weight.shape[2:], attrs.strides, list(attrs.padding)[:rank], results,
            strict=True,
        )
    )  # fmt: skip
    if min(axis.result for axis in axes) < 1:
        return None
    padding = [axis.padding[side] for side in (0, 1) for axis in axes]
    phases = constant_of(_by_phase(weight, axes, groups))
    done = bb.normalize(convolution(data, phases, padding=padding, groups=groups))
    return PhaseConvolution(done, axes, groups, int(call.ty.shape[1]))


def _by_phase(weight: NDArray[Any], axes: tuple[_TransposedAxis, ...], groups: int) -> NDArray[Any]:
    """``[I, O / groups, K ...]`` as ``[groups * phases * O / groups, I / groups, J ...]``."""
    behind = [axis.taps * axis.stride - axis.window for axis in axes]
    whole = np.pad(weight, [(0, 0), (0, 0), *((0, more) for more in behind)])
    inputs, outputs = weight.shape[:2]
    split = [extent for axis in axes for extent in (axis.taps, axis.stride)]
    taken = whole.reshape(groups, inputs // groups, outputs, *split)
    rank = len(axes)
    taps, phases = ([3 + 2 * i + side for i in range(rank)] for side in (0, 1))
    ordered = np.flip(taken, tuple(taps)).transpose(0, *phases, 2, 1, *taps)
    shape = (-1, inputs // groups, *(axis.taps for axis in axes))
    return np.ascontiguousarray(ordered.reshape(shape))
