"""``BitCast``: the same bits, read as numbers of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import helper

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts

if TYPE_CHECKING:
    from tvm import relax


@converts("BitCast")
def convert_bit_cast(c: Conversion) -> relax.Expr:
    """Reinterpret each element."""
    from tvm import te, tirx

    given = c.dtype(0)
    wanted = helper.tensor_dtype_to_np_dtype(int(c.attribute("to"))).name
    truth = "bool" in (given, wanted)
    if truth and {given, wanted} - {"bool", "uint8", "int8"}:
        c.refuse(f"reads {given} as {wanted}, which are of other sizes")

    def read(x: Any) -> Any:
        def value(*at: Any) -> Any:
            # TVM reads no bits of a truth value, nor as one.
            return x(*at).astype(wanted) if truth else tirx.reinterpret(wanted, x(*at))

        return te.compute(x.shape, value, name="bit_cast")

    return c.emit_te(read, c.operand(0))
