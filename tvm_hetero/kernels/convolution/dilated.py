"""Dilated convolutions of 3x3 windows as plain ones of images that are taken apart.

Rows that are ``dy`` apart never meet the rows between them, nor do columns. So the rows and columns
of each phase are an image of its own, and windows are one apart in it:

    image[(n dy + q) dx + r, c, y, x] = data[n, c, y dy + q - top, x dx + r - left]  (zero outside)

Such windows may be computed by tiles with a quarter of the products (`make_winograd`). Data and
results are copied once more for it, so that only where tiles should gain clearly (`_MOST`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.convolution.conv2d import emit_packed_conv2d
from tvm_hetero.kernels.convolution.conv2d_shape import ConvShape, shape_of
from tvm_hetero.kernels.convolution.winograd.kernel import share_of_plain
from tvm_hetero.kernels.tir.array_values import constant_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# Share of plain sums' time that tiles should take at most: copies take some more.
_MOST = 0.7


@dataclass(frozen=True)
class DilatedConvolution:
    """A convolution of the images of all phases, and how its results stand in the whole image."""

    call: relax.Call
    shape: ConvShape

    def in_order(self, bb: relax.BlockBuilder, images: relax.Expr) -> relax.Expr:
        """The result of the dilated convolution, from that of `call`."""
        shape, (dy, dx) = self.shape, self.shape.dilation

        def joined(done: te.Tensor) -> te.Tensor:
            def read(b: Any, c: Any, y: Any, x: Any) -> Any:
                return done[(b * dy + y % dy) * dx + x % dx, c, y // dy, x // dx]

            extents = (shape.batch, shape.out_channels, shape.out_height, shape.out_width)
            return te.compute(extents, read, name="phases_joined")

        return bb.call_te(joined, images, primfunc_name_hint="phases_joined")


def in_phases(
    bb: relax.BlockBuilder, call: relax.Call, weight: NDArray[Any], units: Sequence[VectorUnit]
) -> DilatedConvolution | None:
    """The convolution as one of images that are taken apart, or None where that would not gain.

    Parameters
    ----------
    bb
        Receives the kernel that takes the image apart.
    call
        A call of ``relax.nn.conv2d``.
    weight
        Its weights, ``[O, I, 3, 3]``.
    units
        Vector units of the targets.
    """
    shape = shape_of(call, weight, plain_sums=False)
    if shape is None or not _is_dilated_3x3(shape):
        return None
    if not _gains(shape, call, weight, units):
        return None
    images = bb.emit_te(_taken_apart(shape), call.args[0], primfunc_name_hint="phases")
    return DilatedConvolution(_plain(bb, images, weight), shape)


def _is_dilated_3x3(shape: ConvShape) -> bool:
    once = shape.stride == (1, 1) and shape.groups == 1 and not shape.flat
    return once and shape.kernel == (3, 3) and shape.dilation != (1, 1)


def _extents(shape: ConvShape) -> tuple[int, int, int, int]:
    """Of the images of all phases, with the zeros around them."""
    dy, dx = shape.dilation
    rows, columns = -(-shape.out_height // dy) + 2, -(-shape.out_width // dx) + 2
    return shape.batch * dy * dx, shape.channels, rows, columns


def _taken_apart(shape: ConvShape) -> Any:
    """What computes the images of all phases."""
    dy, dx = shape.dilation

    def compute(data: te.Tensor) -> te.Tensor:
        zero = tirx.const(0, data.dtype)

        def read(b: Any, c: Any, y: Any, x: Any) -> Any:
            row = y * dy + b // dx % dy - shape.top
            column = x * dx + b % dx - shape.left
            inside = tirx.all(row >= 0, row < shape.height, column >= 0, column < shape.width)
            return tirx.if_then_else(inside, data[b // (dx * dy), c, row, column], zero)

        return te.compute(_extents(shape), read, name="phases")

    return compute


def _plain(bb: relax.BlockBuilder, images: relax.Expr, weight: NDArray[Any]) -> relax.Call:
    return bb.normalize(relax.op.nn.conv2d(images, constant_of(weight)))


def _gains(
    shape: ConvShape, call: relax.Call, weight: NDArray[Any], units: Sequence[VectorUnit]
) -> bool:
    """Whether tiles should be that much quicker on every target."""
    bb = relax.BlockBuilder()
    images = relax.Var("images", relax.TensorType(_extents(shape), str(call.args[0].ty.dtype)))
    with bb.function("main", [images]):
        made = emit_packed_conv2d(bb, _plain(bb, images, weight), weight, units)
        if made is None:
            return False
        bb.emit_func_output(bb.emit(made))
    kernels = [f for _, f in bb.get().functions_items() if isinstance(f, tirx.PrimFunc)]
    try:
        return all(share_of_plain(f, unit) <= _MOST for f in kernels for unit in units)
    except ValueError:  # no convolution by tiles
        return False
