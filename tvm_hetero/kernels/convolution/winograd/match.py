"""Which kernels `make_winograd` can take, and what it has to know of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx

from tvm_hetero.kernels.tir.block_roles import ACCUMULATE, PAD, blocks_of, find_role, role_of
from tvm_hetero.kernels.tir.blocks import inline_epilogue
from tvm_hetero.kernels.tir.image_results import ImageResults
from tvm_hetero.kernels.tir.statements import extents_of
from tvm_hetero.kernels.tir.unchecked_schedule import quick_schedule

if TYPE_CHECKING:
    Expr = Any

# On the accumulation of a convolution of 3x3 windows that are one apart: the image's padding
# above and to the left.
WINDOW_3X3 = "tvm_hetero.window_3x3"


@dataclass(frozen=True)
class Convolution(ImageResults):
    """A convolution of 3x3 windows, and what follows it.

    Attributes
    ----------
    data, weights : parameters, ``[images, channels, height, width]`` and
        ``[packed_channels // packed, channels, 3, 3, packed]``.
    top, left : rows and columns of zeros before the image.
    """

    data: tirx.Var
    weights: tirx.Var
    top: int
    left: int

    @property
    def channels(self) -> int:
        """Input channels."""
        return extents_of(self.data)[1]

    @property
    def height(self) -> int:
        """Rows of an image."""
        return extents_of(self.data)[2]

    @property
    def width(self) -> int:
        """Columns of an image."""
        return extents_of(self.data)[3]

    @property
    def packed(self) -> int:
        """Output channels that stand together in the weights."""
        return extents_of(self.weights)[-1]

    @property
    def packed_channels(self) -> int:
        """Output channels, with those that are padding."""
        return extents_of(self.weights)[0] * self.packed

    @property
    def bytes_of_weights(self) -> int:
        """All weights."""
        return 4 * math.prod(extents_of(self.weights))


def is_convolution_3x3(func: tirx.PrimFunc) -> bool:
    """Whether a kernel that is not scheduled has one convolution of 3x3 windows, one apart."""
    found: list[s_tir.SBlock] = []

    def visit(node: s_tir.SBlock) -> None:
        if WINDOW_3X3 in node.annotations:
            found.append(node)

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, visit))
    return len(found) == 1


def convolution_of(func: tirx.PrimFunc) -> Convolution:
    """The convolution that a kernel computes.

    Raises
    ------
    ValueError
        If it computes anything else, or stores its results otherwise than as images.
    """
    sch = quick_schedule(func)
    acc = find_role(sch, ACCUMULATE)
    padding = None if acc is None else sch.get(acc).annotations.get(WINDOW_3X3)
    if acc is None or padding is None:
        raise ValueError("no convolution of 3x3 windows that are one apart")
    last = sch.get(inline_epilogue(sch, acc))
    blocks = blocks_of(sch)
    pads = [b for b in blocks if role_of(sch, b) == PAD]
    if len(blocks) != 2 + len(pads):
        raise ValueError("more is computed than a convolution and what follows it")
    *_, data, weights = (region.source for region in sch.get(acc).reads)
    if pads:
        (data,) = (region.source for region in sch.get(pads[0]).reads)
    top, left = (int(p) for p in padding)
    if len(list(last.iter_vars)) != 4:
        raise ValueError("the results are no images any more")
    images, channels, height, width = (int(v.dom.extent) for v in last.iter_vars)
    sums = sch.get(acc).writes[0].source
    results = images, channels, height, width
    conv = Convolution(results, last, sums, data, weights, top, left)
    if not all(any(p.same_as(t) for p in func.params) for t in (data, weights)):
        raise ValueError("data and weights are expected to be the kernel's own")
    conv.check(tirx.const(0.0, "float32"))
    return conv
