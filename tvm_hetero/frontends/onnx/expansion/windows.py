"""Windows over images: paddings that follow from shapes, blocks in another order, regions.

``auto_pad`` and ``output_shape`` are written out as pads, of which TVM knows one way only.  With k
the extent of a dilated kernel, they are for pooling

    total = (ceil(length / stride) - 1) stride + k - length

of which the larger half is at the end for SAME_UPPER, else at the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_hetero.frontends.onnx.expansion.channel_bias import check_bias
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.axes import checked_axis
from tvm_hetero.frontends.onnx.model.late_windows import (
    counts_padding,
    pads_without_late_windows,
)
from tvm_hetero.frontends.onnx.model.transposed_pads import (
    TooLargeError,
    halves,
    transposed_pads,
)


@rewrites("MaxPool", "AveragePool", "LpPool")
def rewrite_same_pads(r: Rewriting) -> bool:
    """Write out the pads of SAME_UPPER and SAME_LOWER, and those that `ceil_mode` comes to."""
    mode = r.attribute("auto_pad", "NOTSET")
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        return bool(r.attribute("ceil_mode", 0)) and mode != "VALID" and _leave_out_windows(r)
    given = _attributes(r, "auto_pad", "ceil_mode")
    r.add(r.node.op_type, r.inputs, r.outputs, **{**given, "pads": pads_of_window(r)})
    return True


def pads_of_window(r: Rewriting, kernel: Sequence[int] = ()) -> list[int]:
    """Return the pads of a convolution or of pooling: given, none, or those of its ``auto_pad``.

    Parameters
    ----------
    r : Rewriting
        The node.
    kernel : sequence of int
        The window, where the node does not say it.
    """
    mode = r.attribute("auto_pad", "NOTSET")
    lengths = r.dims(r.inputs[0])[2:]
    rank = len(lengths)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        given = r.attribute("pads") if mode == "NOTSET" else None
        return list(given or [0] * 2 * rank)
    strides = r.attribute("strides") or [1] * rank
    totals = [
        max(0, (-(-length // stride) - 1) * stride + extent - length)
        for length, stride, extent in zip(lengths, strides, _extents(r, rank, kernel), strict=True)
    ]
    return halves(totals, mode)


def _leave_out_windows(r: Rewriting) -> bool:
    """Leave out windows that would start behind the input (`model.late_windows`)."""
    pads = pads_without_late_windows(r.node, r.dims(r.inputs[0]))
    # Where an average counts padding, other pads count otherwise: TVM's own form is compared with
    # what onnx infers, which is right from opset 22 on.
    if pads is None or counts_padding(r.node):
        return False
    r.add(r.node.op_type, r.inputs, r.outputs, **{**_attributes(r, "ceil_mode"), "pads": pads})
    return True


@rewrites("ConvTranspose")
def rewrite_output_shape(r: Rewriting) -> bool:
    """Write out the pads that make the shape that the node asks for (`model.transposed_pads`)."""
    check_bias(r, r.operand(2), r.inputs[1], transposed=True)
    lengths, kernel = (r.dims(name)[2:] for name in r.inputs[:2])
    try:
        pads = transposed_pads(r.node, lengths, kernel)
    except TooLargeError as error:
        r.refuse(str(error))
    if pads is None:
        return False
    r.add(
        "ConvTranspose",
        r.inputs,
        r.outputs,
        **{**_attributes(r, "auto_pad", "output_shape"), **pads},
    )
    return True


def _extents(r: Rewriting, rank: int, kernel: Sequence[int] = ()) -> list[int]:
    """Return how far the dilated kernel reaches along each axis."""
    kernel = r.attribute("kernel_shape") or kernel or r.dims(r.inputs[1])[2:]
    dilations = r.attribute("dilations") or [1] * rank
    return [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]


def _attributes(r: Rewriting, *without: str) -> dict[str, Any]:
    """Return the attributes of the node, but for some."""
    return {a.name: r.attribute(a.name) for a in r.node.attribute if a.name not in without}


@rewrites("SpaceToDepth")
def rewrite_space_to_depth(r: Rewriting) -> bool:
    """Order blocks by column and row first (`mode` CRD), by a transposition."""
    if r.attribute("mode", "DCR") == "DCR":
        return False
    n, channels, height, width = r.dims(r.inputs[0])
    block = int(r.attribute("blocksize"))
    apart = [n, channels, height // block, block, width // block, block]
    x = r.add("Reshape", [r.inputs[0], r.constant(apart, np.int64)])
    x = r.add("Transpose", [x], perm=[0, 1, 3, 5, 2, 4])
    joined = [n, channels * block * block, height // block, width // block]
    r.add("Reshape", [x, r.constant(joined, np.int64)], r.outputs)
    return True


@rewrites("RoiAlign")
def rewrite_roi_scale(r: Rewriting) -> bool:
    """Scale the regions first: TVM moves them by half a pixel before it scales them."""
    scale = r.attribute("spatial_scale", 1.0)
    if scale == 1:
        return False
    x, regions, batches = r.inputs
    scaled = r.add("Mul", [regions, r.like(scale, regions)])
    r.add("RoiAlign", [x, scaled, batches], r.outputs, **_attributes(r, "spatial_scale"))
    return True


@rewrites("GridSample")
def rewrite_reflected_line(r: Rewriting) -> bool:
    """Double an axis of one element, between whose corners nothing lies to be reflected in."""
    x, grid = r.inputs
    narrow = [d for d, extent in enumerate(r.dims(x)) if d > 1 and extent == 1]
    reflects = r.attribute("padding_mode", "zeros") == "reflection"
    if not narrow or not reflects or not r.attribute("align_corners", 0):
        return False
    for d in narrow:
        x = r.add("Concat", [x, x], axis=d)
    r.add("GridSample", [x, grid], r.outputs, **_attributes(r))
    return True


@rewrites("Pad")
def rewrite_pad(r: Rewriting) -> bool:
    """Cut before a ``wrap``, and choose a value that is computed where there is padding."""
    mode = r.attribute("mode", "constant")
    if mode != "constant":
        _check_mirrored(r, mode)
    if mode == "wrap":
        return _cut_first(r)
    value = r.operand(2)
    if mode != "constant" or not value or r.array(value) is not None:
        return False
    dims = r.dims(r.inputs[0])
    before, after = _pads(r, len(dims))
    r.afford(*(n + abs(b) + abs(a) for n, b, a in zip(dims, before, after, strict=True)))
    inside = np.ones(dims, bool)
    for d, (first, last) in enumerate(zip(before, after, strict=True)):
        kept = np.arange(max(0, -first), dims[d] - max(0, -last))
        inside = np.take(inside, kept, axis=d)
        ends = [(0, 0)] * len(dims)
        ends[d] = (max(0, first), max(0, last))
        inside = np.pad(inside, ends)
    rest = [r.inputs[0], r.inputs[1], "", *r.inputs[3:]]
    padded = r.add("Pad", [name for name in rest if name or len(rest) > 3], mode=mode)
    r.add("Where", [r.constant(inside), padded, value], r.outputs)
    return True


def _check_mirrored(r: Rewriting, mode: str) -> None:
    """Refuse to repeat what is not there: TVM would read beyond the tensor."""
    dims = r.dims(r.inputs[0])
    for d, (n, first, last) in enumerate(zip(dims, *_pads(r, len(dims)), strict=True)):
        left, most = n + min(0, first) + min(0, last), max(first, last)
        if most > 0 and (left < 1 or (mode == "reflect" and most >= left)):
            r.refuse(
                f"pads axis {d} by {most} in mode {mode}, and has {max(0, left)} elements there"
            )


def _pads(r: Rewriting, rank: int) -> tuple[list[int], list[int]]:
    """Return what is added before and after along each axis."""
    given = [int(p) for p in r.constant_of(1, "pads")]
    chosen = list(range(rank))
    if r.operand(3):
        chosen = [checked_axis(r.refuse, int(d), rank) for d in r.constant_of(3, "axes")]
    before, after = [0] * rank, [0] * rank
    for position, d in enumerate(chosen):
        before[d], after[d] = given[position], given[len(given) // 2 + position]
    return before, after


def _cut_first(r: Rewriting) -> bool:
    dims = r.dims(r.inputs[0])
    before, after = _pads(r, len(dims))
    if min(*before, *after) >= 0:
        return False
    starts = [max(0, -p) for p in before]
    ends = [n - max(0, -p) for n, p in zip(dims, after, strict=True)]
    cut = r.add("Slice", [r.inputs[0], r.constant(starts), r.constant(ends)])
    grown = [max(0, p) for p in [*before, *after]]
    r.add("Pad", [cut, r.constant(grown, np.int64)], r.outputs, mode="wrap")
    return True
