"""``Div`` and ``Mod`` by a constant that is zero: TVM writes it into the kernel and refuses that.

x / 0 is an infinity of x's sign, and no number where x is 0 or none: so is x times infinity, bit
for bit but for the sign of what is no number. Whole numbers have no such value, and what is left of
a division by zero is nothing that ONNX says: those are refused.
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
    refuse_zero(r)
    if known is None or known.ndim or known.dtype.kind != "f" or known != 0:
        return False
    infinity = np.copysign(np.array(np.inf, known.dtype), known)
    r.add("Mul", [dividend, r.constant(infinity)], r.outputs)
    return True


def refuse_zero(r: Rewriting) -> None:
    """Refuse whole numbers by a zero that is known: TVM, or a processor, dies of it."""
    known = r.array(r.inputs[1])
    if known is not None and known.dtype.kind in "iu" and not known.all():
        r.refuse("divides by a constant that is zero. Correct the model.")
