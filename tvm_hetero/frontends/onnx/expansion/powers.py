"""``Pow`` of any two types, ``Mod`` of floating numbers that follows the divisor's sign.

TVM's power wants two floating operands of one type.  The result of ONNX's is of the base's type.
Integers are raised in float64 and cut back, as ONNX Runtime does; a whole constant exponent of a
few bits is a chain of products, which is exact.
"""

from __future__ import annotations

from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.divisions import refuse_zero
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

_MOST_PRODUCTS = 64


@rewrites("Pow")
def rewrite_pow(r: Rewriting) -> bool:
    """Bring both operands to one floating type."""
    base, exponent = r.inputs
    kind = r.element_type(base)
    if r.dtype(base).kind in "iu":
        return _raise_integers(r, kind)
    if r.element_type(exponent) == kind:
        return False
    r.add("Pow", [base, r.add("Cast", [exponent], to=kind)], r.outputs)
    return True


def _raise_integers(r: Rewriting, kind: int) -> bool:
    base, exponent = r.inputs
    known = r.array(exponent)
    if known is not None and known.size == 1 and known.ndim <= r.rank(base):
        times = float(known.reshape(()))
        if times.is_integer() and 1 <= times <= _MOST_PRODUCTS:
            r.alias(_product(r, base, int(times)), r.outputs[0])
            return True
    wide = [r.add("Cast", [name], to=TensorProto.DOUBLE) for name in (base, exponent)]
    r.add("Cast", [r.add("Pow", wide)], r.outputs, to=kind)
    return True


def _product(r: Rewriting, base: str, times: int) -> str:
    """Return the name of base ** times, by squaring."""
    result, power = "", base
    while times:
        if times & 1:
            result = r.add("Mul", [result, power]) if result else power
        times >>= 1
        if times:
            power = r.add("Mul", [power, power])
    return result


@rewrites("Mod")
def rewrite_mod(r: Rewriting) -> bool:
    """Python's remainder of floating numbers by C's, which TVM computes right.

    The remainder of C has the sign of the dividend; where that is not the divisor's, the divisor
    is added.  A remainder of 0 takes the divisor's sign.
    """
    refuse_zero(r)
    if r.attribute("fmod", 0) or r.dtype(r.inputs[0]).kind in "iu":
        return False
    x, y = r.inputs
    zero = r.like(0, x)
    rest = r.add("Mod", [x, y], fmod=1)
    signs = [r.add("Less", [each, zero]) for each in (rest, y)]
    moved = r.add("Where", [r.add("Xor", signs), r.add("Add", [rest, y]), rest])
    nothing = r.add("Mul", [r.add("Abs", [rest]), r.add("Sign", [y])])
    r.add("Where", [r.add("Equal", [rest, zero]), nothing, moved], r.outputs)
    return True
