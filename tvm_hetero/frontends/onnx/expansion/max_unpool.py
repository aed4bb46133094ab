"""``MaxUnpool``: values back to where a MaxPool took them from, zeros around them."""

from __future__ import annotations

import math

import numpy as np

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites("MaxUnpool")
def rewrite_max_unpool(r: Rewriting) -> bool:
    """Scatter into zeros of the size that the window gives; what is wanted more stands behind."""
    x, places = r.inputs[:2]
    dims = r.dims(x)
    kernel = [int(k) for k in r.attribute("kernel_shape")]
    strides = [int(s) for s in r.attribute("strides", [1] * len(kernel))]
    pads = [int(p) for p in r.attribute("pads", [0] * 2 * len(kernel))]
    before, behind = pads[: len(kernel)], pads[len(kernel) :]
    sides = zip(dims[2:], kernel, strides, before, behind, strict=True)
    shape = [*dims[:2], *((n - 1) * s + k - b - e for n, k, s, b, e in sides)]
    wanted = [int(n) for n in r.constant_of(2, "shape")] if r.operand(2) else shape
    if len(wanted) != len(shape) or any(w < n for w, n in zip(wanted, shape, strict=True)):
        r.refuse(f"wants the shape {wanted}, which does not hold {shape}, what its window gives")
    r.afford(*shape)
    zeros = r.constant(np.zeros(math.prod(shape), r.dtype(x)))
    flat = r.constant([-1], np.int64)
    values, at = (r.add("Reshape", [each, flat]) for each in (x, places))
    filled = r.add("ScatterElements", [zeros, at, values], axis=0)
    if wanted == shape:
        r.add("Reshape", [filled, r.constant(shape, np.int64)], r.outputs)
        return True
    made = r.add("Reshape", [filled, r.constant(shape, np.int64)])
    more = [w - n for w, n in zip(wanted, shape, strict=True)]
    r.add("Pad", [made, r.constant([0] * len(shape) + more, np.int64)], r.outputs)
    return True
