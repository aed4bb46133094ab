"""Convolutions of volumes (conv3d) as convolutions of images.

A window of ``KZ`` planes that slides over ``Z`` planes meets ``KZ`` of them at each of its places.
These are taken as the channels of one image, and each place as an image of its own:

    image[n Z' + z, i KZ + k, y, x] = volume[n, i, z s + k d - p, y, x]    (zero outside)

so that the weights ``[O, I, KZ, KY, KX]`` are those of a conv2d, ``[O, I KZ, KY, KX]``, as they lie
in memory. Every value is copied ``KZ`` times before and every result once behind, which is little
beside ``2 O KY KX`` operations on each.

Where the window is one value of each plane, rows and columns are one dimension of a conv2d over
planes and these, and nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.tir.array_values import constant_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class VolumeConvolution:
    """A conv2d, and what its results are in the volume."""

    call: relax.Call
    result: tuple[int, ...]
    planes_apart: bool

    def in_order(self, bb: relax.BlockBuilder, images: relax.Expr) -> relax.Expr:
        """The result of the conv3d, from that of `call`."""
        if not self.planes_apart:
            return relax.op.reshape(images, self.result)
        n, channels, depth, height, width = self.result
        parted = bb.emit(relax.op.reshape(images, (n, depth, channels, height, width)))
        return relax.op.permute_dims(parted, (0, 2, 1, 3, 4))


def as_conv2d(
    bb: relax.BlockBuilder, call: relax.Call, weight: NDArray[Any]
) -> VolumeConvolution | None:
    """The convolution of a volume as one of images, or None where this does not fit.

    Parameters
    ----------
    bb
        Receives the kernel that takes planes together.
    call
        A call of ``relax.nn.conv3d``.
    weight
        Its weights, ``[O, I / groups, KZ, KY, KX]``.
    """
    attrs, data = call.attrs, call.args[0]
    fits = (
        attrs.data_layout == "NCDHW"
        and attrs.kernel_layout == "OIDHW"
        and str(attrs.out_layout) in ("", "NCDHW")
        and str(data.ty.dtype) == str(call.ty.dtype)
        and data.ty.shape is not None
        and all(isinstance(e, int | tirx.IntImm) for e in data.ty.shape)
    )
    if not fits:
        return None
    one_each = (
        weight.shape[3:] == (1, 1)
        and all(int(s) == 1 for s in list(attrs.strides)[1:])
        and not any(int(attrs.padding[i]) for i in (1, 2, 4, 5))
    )
    return (_of_lines if one_each else _of_images)(bb, call, weight)


def _of_lines(bb: relax.BlockBuilder, call: relax.Call, weight: NDArray[Any]) -> VolumeConvolution:
    """Windows of one value of each plane."""
    strides, padding, dilation = _ints(call)
    n, channels, depth, height, width = (int(e) for e in call.args[0].ty.shape)
    image = bb.emit(relax.op.reshape(call.args[0], (n, channels, depth, height * width)))
    conv = relax.op.nn.conv2d(
        image, constant_of(weight.reshape(*weight.shape[:3], 1)), (strides[0], 1),
        (padding[0], 0, padding[3], 0), (dilation[0], 1), int(call.attrs.groups),
    )  # fmt: skip
    return VolumeConvolution(bb.normalize(conv), _result(call), planes_apart=False)


def _of_images(bb: relax.BlockBuilder, call: relax.Call, weight: NDArray[Any]) -> VolumeConvolution:
    """All other windows."""
    strides, padding, dilation = _ints(call)
    result, window = _result(call), int(weight.shape[2])
    image = _planes_together(
        bb, call.args[0], result[2], window, strides[0], dilation[0], padding[0]
    )
    conv = relax.op.nn.conv2d(
        image, constant_of(weight.reshape(weight.shape[0], -1, *weight.shape[3:])), strides[1:],
        [padding[i] for i in (1, 2, 4, 5)], dilation[1:], int(call.attrs.groups),
    )  # fmt: skip
    return VolumeConvolution(bb.normalize(conv), result, planes_apart=True)


def _ints(call: relax.Call) -> tuple[list[int], ...]:
    """Strides, padding (before, then behind) and dilation, planes first."""
    attrs = call.attrs
    return tuple([int(v) for v in of] for of in (attrs.strides, attrs.padding, attrs.dilation))


def _result(call: relax.Call) -> tuple[int, ...]:
    return tuple(int(e) for e in call.ty.shape)


def _planes_together(
    bb: relax.BlockBuilder,
    volume: relax.Expr,
    places: int,
    window: int,
    stride: int,
    dilation: int,
    before: int,
) -> relax.Expr:
    """The planes that each place of a window meets, as channels of an image."""
    n, channels, depth, height, width = (int(e) for e in volume.ty.shape)

    def gathered(data: te.Tensor) -> te.Tensor:
        zero = tirx.const(0, data.dtype)

        def read(b: Any, c: Any, y: Any, x: Any) -> Any:
            plane = b % places * stride + c % window * dilation - before
            value = data[b // places, c // window, plane, y, x]
            inside = tirx.all(plane >= 0, plane < depth)
            return tirx.if_then_else(inside, value, zero)

        shape = (n * places, channels * window, height, width)
        return te.compute(shape, read, name="planes")

    return bb.emit_te(gathered, volume, primfunc_name_hint="planes")
