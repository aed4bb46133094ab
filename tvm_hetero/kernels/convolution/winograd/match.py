"""Which kernels `make_winograd` can take, and what it has to know of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.tir.block_roles import ACCUMULATE, PAD, blocks_of, find_role, role_of
from tvm_hetero.kernels.tir.blocks import inline_epilogue, uses
from tvm_hetero.kernels.tir.unchecked_schedule import quick_schedule

if TYPE_CHECKING:
    Expr = Any

# On the accumulation of a convolution of 3x3 windows that are one apart: the image's padding
# above and to the left.
WINDOW_3X3 = "tvm_hetero.window_3x3"


@dataclass(frozen=True)
class Convolution:
    """A convolution of 3x3 windows, and what follows it.

    Attributes
    ----------
    data, weights : parameters, ``[images, channels, height, width]`` and
        ``[packed_channels // packed, channels, 3, 3, packed]``.
    top, left : rows and columns of zeros before the image.
    results : of the convolution and of the whole kernel, ``[images, channels, height, width]``.
    last : the block that computes the kernel's results from those of the convolution.
    sums : the tensor of which that block reads the convolution's results.
    """

    data: tirx.Var
    weights: tirx.Var
    top: int
    left: int
    results: tuple[int, int, int, int]
    last: s_tir.SBlock
    sums: tirx.Var

    @property
    def images(self) -> int:
        """How many images there are."""
        return self.results[0]

    @property
    def channels(self) -> int:
        """Input channels."""
        return _extents(self.data)[1]

    @property
    def height(self) -> int:
        """Rows of an image."""
        return _extents(self.data)[2]

    @property
    def width(self) -> int:
        """Columns of an image."""
        return _extents(self.data)[3]

    @property
    def packed(self) -> int:
        """Output channels that stand together in the weights."""
        return _extents(self.weights)[-1]

    @property
    def packed_channels(self) -> int:
        """Output channels, with those that are padding."""
        return _extents(self.weights)[0] * self.packed

    @property
    def bytes_of_weights(self) -> int:
        """All weights."""
        return 4 * math.prod(_extents(self.weights))

    def result(self, image: Expr, channel: Expr, pixel: Expr, sums: Expr) -> tirx.Stmt:
        """Computes what is fused behind for one pixel (row times width plus column), or a vector
        of them, and stores it.
        """
        batch, out, row, column = (v.var for v in self.last.iter_vars)
        values = {batch: image, out: channel}

        def variable(var: tirx.Var) -> Expr:
            return values.get(var, var)

        def joined(indices: list[Expr]) -> list[Expr]:
            """Indices whose last two are row and column, as one of the image's pixels."""
            if len(indices) >= 2 and indices[-2].same_as(row) and indices[-1].same_as(column):
                return [*indices[:-2], tirx.const(0, str(row.ty.dtype)), pixel]
            return indices

        def load(node: TensorLoad) -> Expr:
            if node.source.same_as(self.sums):
                return sums
            return tirx.BufferLoad(node.source, joined(list(node.indices)))

        stored = self.last.body
        rules = [(TensorLoad, load)]
        value = tvm_ffi.structural_map(stored.value, rules)
        value = tvm_ffi.structural_map(value, [(tirx.Var, variable)])
        places = [
            tvm_ffi.structural_map(i, [(tirx.Var, variable)]) for i in joined(list(stored.indices))
        ]
        return tirx.BufferStore(stored.buffer, value, places)


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
    conv = Convolution(data, weights, top, left, results, last, sums)
    if not all(any(p.same_as(t) for p in func.params) for t in (data, weights)):
        raise ValueError("data and weights are expected to be the kernel's own")
    check_last(conv, tirx.const(0.0, "float32"))
    return conv


def check_last(conv: Convolution, sums: Expr) -> None:
    """Check that what follows reads and writes nothing by rows and columns but whole images.

    Parameters
    ----------
    conv
        The convolution.
    sums
        A value of the type of its sums.

    Raises
    ------
    ValueError
        If it does.
    """
    if not isinstance(conv.last.body, tirx.BufferStore):
        raise ValueError("what follows the convolution is expected to be one value each")
    row, column = (v.var for v in conv.last.iter_vars[2:])
    zero = tirx.const(0, str(row.ty.dtype))
    done = conv.result(zero, zero, zero, sums)
    if any(uses(done, var) for var in (row, column)):
        raise ValueError("what follows the convolution reads other tensors than whole images")
    images: list[list[int]] = [_extents(conv.last.body.buffer)[-2:]]

    def load(node: TensorLoad) -> None:
        own = node.source.same_as(conv.sums)
        if not own and any(i.same_as(column) for i in node.indices):
            images.append(_extents(node.source)[-2:])

    tvm_ffi.structural_walk(conv.last.body, (TensorLoad, load))
    if any(extents != list(conv.results[2:]) for extents in images):
        raise ValueError("what follows the convolution reads or writes parts of other tensors")


def _extents(tensor: tirx.Var) -> list[int]:
    return [int(e) for e in tensor.ty.shape]
