"""Values and vectors of values in other types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import tirx

if TYPE_CHECKING:
    Expr = Any


def vector_type(dtype: str, lanes: int) -> str:
    """The type of so many lanes."""
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def cast(value: Expr, dtype: str) -> Expr:
    """The value in another type, where it is of another."""
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def to_float32(values: Expr, lanes: int) -> Expr:
    """A vector of values as float32.

    Bits of bfloat16 are moved by hand: TVM's cast of a vector of them takes bits for numbers.
    """
    dtype = str(values.ty.dtype)
    if not dtype.startswith("bfloat16") or lanes == 1:
        return cast(values, vector_type("float32", lanes))
    bits = tirx.reinterpret(vector_type("uint16", lanes), values)
    wide = tirx.Cast(vector_type("uint32", lanes), bits)
    sixteen = tirx.Broadcast(tirx.const(16, "uint32"), lanes)
    return tirx.reinterpret(vector_type("float32", lanes), tirx.shift_left(wide, sixteen))
