"""``BitShift`` as ONNX defines it, where a machine's shift is undefined.

Shifted by its width or further, or by less than nothing, a number has no bits left: it is 0, or -1
where a negative number is shifted to the right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_hetero.frontends.onnx.conversion.bounds import joint_shape, read
from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts

if TYPE_CHECKING:
    from tvm import relax, te


@converts("BitShift")
def convert_bit_shift(c: Conversion) -> relax.Expr:
    """Shift within the width, and choose what is right beyond."""
    from tvm import te, tirx

    dtype, left = c.dtype(0), c.attribute("direction") == "LEFT"
    width = np.iinfo(dtype).bits

    def shift(x: te.Tensor, by: te.Tensor) -> te.Tensor:
        zero, most = tirx.const(0, dtype), tirx.const(width - 1, dtype)

        def value(*at: Any) -> Any:
            number, steps = read(x, at), read(by, at)
            inside = tirx.all(steps >= zero, steps <= most)
            safe = tirx.Select(inside, steps, zero if left else most)
            if left:
                return tirx.Select(inside, number << safe, zero)
            gone = number >> most if dtype.startswith("int") else zero
            return tirx.Select(inside, number >> safe, gone)

        shape = joint_shape([int(n) for n in x.shape], [int(n) for n in by.shape])
        return te.compute(shape, value, name="shift")

    return c.emit_te(shift, c.operand(0), c.operand(1), primfunc_name_hint="bit_shift")
