"""``LpNormalization``: each vector over its norm; one of zeros stays one."""

from __future__ import annotations

import numpy as np

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites("LpNormalization")
def rewrite_lp_normalization(r: Rewriting) -> bool:
    """Divide by the norm along an axis."""
    x, p = r.inputs[0], int(r.attribute("p", 2))
    if p not in (1, 2):
        r.refuse(f"is of p = {p}; expected 1 or 2")
    axis = int(r.attribute("axis", -1))
    if r.opset < 18:
        norm = r.add(f"ReduceL{p}", [x], axes=[axis], keepdims=1)
    else:
        norm = r.add(f"ReduceL{p}", [x, r.constant([axis], np.int64)], keepdims=1)
    nothing = r.add("Equal", [norm, r.like(0, x)])
    divisor = r.add("Where", [nothing, r.like(1, x), norm])
    r.add("Div", [x, divisor], r.outputs)
    return True
