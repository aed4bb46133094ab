"""What TVM 0.27 cannot write in CUDA's language, said otherwise before it has to.

Constants of 16 bits that are no finite number
    It writes NaN as ``nanf``, the name of a function, and infinity as ``inff``, which nothing is.
    Converted from float32, which has names for them, they are written right (`spell_constants`).

Conditions of several lanes
    Of a vector's conditions it makes words of 16 bits, and declares them as floats. A choice
    (`Select`) between vectors is such a one; a branch is not, since the loop over its lanes stays
    a loop where the condition has lanes (`branch_on_conditions`).
"""

from __future__ import annotations

import math

import tvm
import tvm_ffi
from tvm import tirx

_NARROW = ("float16", "bfloat16")


@tirx.transform.prim_func_pass(opt_level=0, name="SpellConstants")  # type: ignore[untyped-decorator]
def spell_constants(
    func: tirx.PrimFunc, _mod: tvm.IRModule, _context: tvm.transform.PassContext
) -> tirx.PrimFunc:
    """A device's function without narrow constants that are infinite or NaN.

    Nothing may simplify it afterwards: the conversion of a constant is a constant again.
    """

    def spelled(node: tirx.FloatImm) -> tirx.PrimExpr:
        kind = str(node.ty.dtype)
        if kind not in _NARROW or math.isfinite(node.value):
            return node
        return tirx.Cast(kind, tirx.FloatImm("float32", node.value))

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.FloatImm, spelled)))


def branch_on_conditions(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that is not scheduled, with branches where it chooses between two values."""

    def branch(node: tirx.Select) -> tirx.PrimExpr:
        return tirx.if_then_else(node.condition, node.true_value, node.false_value)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.Select, branch)))
