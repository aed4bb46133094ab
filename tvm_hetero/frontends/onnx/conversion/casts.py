"""``Cast`` where TVM's is not right: 8-bit floats, packed types, floats beyond an integer's range.

Packed types (int4, float4 and their like) have no whole bytes; inside a model such a tensor is
held with a byte for each element (`element_types`), whose value is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onnx import TensorProto

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts
from tvm_hetero.frontends.onnx.conversion.small_floats import (
    POWER_OF_TWO,
    SMALL_FLOATS,
    decode,
    decode_power,
    encode,
    encode_float4,
    encode_power,
)
from tvm_hetero.frontends.onnx.model.element_types import PACKED_BITS, held_as

if TYPE_CHECKING:
    from tvm import relax, te
    from tvm.tirx import PrimExpr

    Elementwise = Callable[[PrimExpr], PrimExpr]


_BYTES = (TensorProto.UINT8, TensorProto.INT8)
# Of what they cannot hold LLVM says nothing, and each processor gives its own.
_CUT = ("int32", "int64", "uint32", "uint64")


@converts("Cast")
def convert_cast(c: Conversion) -> relax.Expr | None:
    """Decode what is held in 8 bits, and encode what is to be."""
    kind = int(c.attribute("to"))
    source, target = c.dtype(0), held_as(kind)
    if c.is_bounded(0) and source == "float32" and kind in _BYTES:
        # By way of int32, in which NaN becomes what has zeros as its last bits. Whatever asks for
        # NaN reads its operand again: chains of codes would grow exponentially when inlined.
        return c.cast(c.cast(c.operand(0), "int32"), target)
    small = (*SMALL_FLOATS, POWER_OF_TWO)
    ours = source in small or target in small or kind in PACKED_BITS
    if not ours and not (target in _CUT and source.startswith("float")):
        return None
    if c.constant(0) is not None and not ours:
        return None

    def cast(x: te.Tensor) -> te.Tensor:
        from tvm import te

        read = _decoder(source)
        write = _encoder(c, kind, target)
        return te.compute(x.shape, lambda *at: write(read(x[at])), name="cast")

    return c.emit_te(cast, c.operand(0), primfunc_name_hint="cast")


def _decoder(source: str) -> Elementwise:
    from tvm import tirx

    def code(x: PrimExpr) -> PrimExpr:
        return tirx.reinterpret("uint8", x).astype("uint32")

    if source == POWER_OF_TWO:
        return lambda x: decode_power(code(x))
    if source in SMALL_FLOATS:
        return lambda x: decode(code(x), SMALL_FLOATS[source])
    return lambda x: x


def _encoder(c: Conversion, kind: int, target: str) -> Elementwise:
    """Return how a number becomes one of the target's type."""
    from tvm import tirx

    saturate = c.flag("saturate", 1)

    def held(code: PrimExpr) -> PrimExpr:
        return tirx.reinterpret(target, code.astype("uint8"))

    if kind == getattr(TensorProto, "FLOAT4E2M1", None):
        return lambda x: held(encode_float4(x.astype("float32")))
    if target == POWER_OF_TWO:
        mode = c.attribute("round_mode", "up")
        return lambda x: held(encode_power(x.astype("float32"), mode, saturate=saturate))
    if target in SMALL_FLOATS:
        form = SMALL_FLOATS[target]
        return lambda x: held(encode(x.astype("float32"), form, saturate=saturate))
    if kind in PACKED_BITS:
        return lambda x: _wrapped(to_integer(x, "int32"), PACKED_BITS[kind], target)
    if target in _CUT:
        return lambda x: to_integer(x, target)
    return lambda x: x.astype(target)


def to_integer(x: PrimExpr, target: str) -> PrimExpr:
    """Cut a number to an integer; NaN and what is out of range become the smallest one.

    That is what x86 makes of them, and so ONNX Runtime on it.
    """

    source = _dtype(x)
    if not source.startswith("float"):
        return x.astype(target)
    wide = x.astype("float32") if source == "float16" else x
    if target == "uint32":
        return _cut(wide, "int64").astype("uint32")
    if target == "uint64":
        return _cut_to_uint64(wide)
    return _cut(wide, target)


def _cut(x: PrimExpr, target: str) -> PrimExpr:
    from tvm import tirx

    limit = tirx.const(2.0 ** (int(target[3:]) - 1), _dtype(x))
    inside = tirx.all(x >= -limit, x < limit)
    return tirx.Select(inside, x.astype(target), tirx.min_value(target))


def _cut_to_uint64(x: PrimExpr) -> PrimExpr:
    """Numbers from 2^63 on without their first bit, which is put back."""
    from tvm import tirx

    half = tirx.const(2.0**63, _dtype(x))
    upper = _cut(x - half, "int64") ^ tirx.min_value("int64")
    return tirx.reinterpret("uint64", tirx.Select(x >= half, upper, _cut(x, "int64")))


def _dtype(x: PrimExpr) -> str:
    return str(x.ty.dtype) if hasattr(x, "ty") else str(x.dtype)


def _wrapped(x: PrimExpr, bits: int, target: str) -> PrimExpr:
    """Return the last bits of an integer, with their sign if the type has one."""
    rest: Any = x & ((1 << bits) - 1)
    if target.startswith("int"):
        half = 1 << (bits - 1)
        rest = (rest ^ half) - half
    return rest.astype(target)
