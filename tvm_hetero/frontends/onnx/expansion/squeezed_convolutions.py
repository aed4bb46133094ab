"""Convolutions of one row or column whose result is squeezed, as convolutions of a line.

TensorFlow's exporter writes a convolution of a line as one of an image with one row (or column),
and the bias behind the squeeze. Written as what it is, bias and activation follow at once and join
its kernel.

    Conv([n, c, 1, l], [o, i, 1, k]) -> Squeeze(2)      what `rewrite_squeeze` finds
    Reshape -> Conv([n, c, l], [o, i, k])               what it makes of them
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.mutable_graph import attribute

_IMAGE = 4  # dimensions


@rewrites("Squeeze")
def rewrite_squeeze(r: Rewriting) -> bool:
    """Squeeze the convolution's input and weights instead of its result."""
    image = r.inputs[0]
    conv = r.maker(image)
    if conv is None or conv.op_type != "Conv" or not r.is_shaped(image):
        return False
    weight, axis = r.array(conv.input[1]), _axis(r)
    if weight is None or weight.ndim != _IMAGE or axis is None:
        return False
    if not _is_line(r, conv, weight, axis) or not r.is_read_once(conv.output[0]):
        return False
    dims = r.dims(conv.input[0])
    line = r.add("Reshape", [conv.input[0], r.constant(np.delete(dims, axis), np.int64)])
    window = r.constant(np.squeeze(weight, axis))
    operands = [line, window, *conv.input[2:]]
    r.add("Conv", operands, r.outputs, **_attributes(conv, axis - 2))
    return True


def _axis(r: Rewriting) -> int | None:
    """Return the one axis that is squeezed, if it is one of the image's."""
    given = r.array(r.operand(1)) if r.operand(1) else r.attribute("axes")
    axes = [] if given is None else [int(a) % _IMAGE for a in np.ravel(given)]
    return axes[0] if len(axes) == 1 and axes[0] >= 2 else None


def _is_line(r: Rewriting, conv: NodeProto, weight: np.ndarray, axis: int) -> bool:
    """Whether a convolution has one value, of image and window, along an axis.

    Those of a channel each have kernels as images, and none as lines.
    """
    if not r.is_shaped(conv.input[0]) or weight.shape[1] == 1:
        return False
    pads = attribute(conv, "pads", [0] * 4)
    mode = attribute(conv, "auto_pad", b"NOTSET")
    one_each = r.dims(conv.input[0])[axis] == weight.shape[axis] == 1
    return one_each and mode == b"NOTSET" and not pads[axis - 2] and not pads[axis]


def _attributes(conv: NodeProto, position: int) -> dict[str, Any]:
    """Return the attributes of a convolution of an image, without one of its two axes."""
    other = 1 - position
    found: dict[str, Any] = {"group": attribute(conv, "group", 1)}
    for name in ("kernel_shape", "strides", "dilations"):
        value = attribute(conv, name, None)
        found[name] = None if value is None else [value[other]]
    pads = attribute(conv, "pads", None)
    found["pads"] = None if pads is None else [pads[other], pads[other + 2]]
    return found
