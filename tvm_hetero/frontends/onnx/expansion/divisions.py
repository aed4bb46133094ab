"""``Div`` by a constant that is zero: TVM writes it into the kernel and refuses to divide by it.

x / 0 is an infinity of x's sign, and no number where x is 0 or none: so is x times infinity, bit
for bit but for the sign of what is no number.
"""

from __future__ import annotations

import numpy as np

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites("Div")
def rewrite_div(r: Rewriting) -> bool:
    """Multiply by an infinity of the divisor's sign."""
    dividend, divisor = r.inputs
    known = r.array(divisor)
    if known is None or known.ndim or known.dtype.kind != "f" or known != 0:
        return False
    infinity = np.copysign(np.array(np.inf, known.dtype), known)
    r.add("Mul", [dividend, r.constant(infinity)], r.outputs)
    return True
