"""Floating numbers of 8 bits and less, encoded and decoded by integer arithmetic on their bits.

TVM's own conversions wrap around where a number is too large, take FNUZ types for others, and
know no denormals.  With M bits of mantissa and a bias b, the code of a positive number is

    its float32 bits, rounded to M bits of mantissa, minus (127 - b) 2^M     where it is normal
    the number over 2^(1 - b - M), rounded                                   below

and rounding is to the nearest, ties to even: by an addition that carries in the first case, by that
of a large number, which leaves no more places, in the second.  What is beyond the largest code is
that code (`saturate`), or infinity or NaN, as the type has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

_INFINITE = 0x7F800000


@dataclass(frozen=True)
class SmallFloat:
    """A type of up to 8 bits.

    Attributes
    ----------
    mantissa, bias : int
        Bits of the mantissa; what is added to the exponent.
    largest, beyond, nan : int
        Codes without sign: of the largest finite number, of what is larger (infinity or NaN)
        and of NaN.
    no_negative_zero : bool
        The code of -0 is NaN's (the FNUZ types).
    """

    mantissa: int
    bias: int
    largest: int
    beyond: int
    nan: int
    no_negative_zero: bool = False


SMALL_FLOATS = {
    "float8_e4m3fn": SmallFloat(3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e5m2": SmallFloat(2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e4m3fnuz": SmallFloat(3, 8, 0x7F, 0x80, 0x80, True),
    "float8_e5m2fnuz": SmallFloat(2, 16, 0x7F, 0x80, 0x80, True),
}
FLOAT4 = SmallFloat(1, 1, 7, 7, 0)
"""float4_e2m1: no infinity, no NaN, always saturated."""

POWER_OF_TWO = "float8_e8m0fnu"
"""An exponent alone, as scales of blocks have it."""


def encode(x: PrimExpr, kind: SmallFloat, *, saturate: bool) -> PrimExpr:
    """Return the code of a float32 number, as a uint32 below 256 with its sign bit."""
    from tvm import tirx

    bits = _bits(x)
    size = bits & _word(0x7FFFFFFF)
    code = _finite_code(size, kind)
    beyond = _word(kind.largest if saturate else kind.beyond)
    is_beyond = tirx.any(code > _word(kind.largest), size == _word(_INFINITE))
    found = tirx.Select(is_beyond, beyond, code)
    found = tirx.Select(size > _word(_INFINITE), _word(kind.nan), found)
    sign = _sign(bits)
    if kind.no_negative_zero:
        sign = tirx.Select(found == _word(0), _word(0), sign)
    return found | sign


def encode_float4(x: PrimExpr) -> PrimExpr:
    """Return the code in float8_e4m3fn of a float32 number rounded to float4_e2m1.

    float4 has the exponents 0 to 2 and one bit of mantissa, of which the other type has three; its
    only denormal number is 0.5.
    """
    from tvm import tirx

    bits = _bits(x)
    size = bits & _word(0x7FFFFFFF)
    finite = tirx.Min(_finite_code(size, FLOAT4), _word(FLOAT4.largest))
    code = tirx.Select(size > _word(_INFINITE), _word(0), finite)
    wide = (code << _word(2)) + _word(0x30)
    return tirx.Select(code < _word(2), code * _word(0x30), wide) | _sign(bits)


def _finite_code(size: PrimExpr, kind: SmallFloat) -> PrimExpr:
    from tvm import tirx

    cut = 23 - kind.mantissa
    even = (size >> _word(cut)) & _word(1)
    rounded = (size + _word((1 << (cut - 1)) - 1) + even) >> _word(cut)
    normal = rounded - _word((127 - kind.bias) << kind.mantissa)
    # In the sum of this and a denormal number one unit is the last place.
    shift = _word((1 - kind.bias - kind.mantissa + 23 + 127) << 23)
    denormal = _bits(_float(size) + _float(shift)) - shift
    return tirx.Select(size < _word((128 - kind.bias) << 23), denormal, normal)


def decode(code: PrimExpr, kind: SmallFloat) -> PrimExpr:
    """Return the float32 number of a uint32 code."""
    from tvm import tirx

    size = code & _word(0x7F)
    unit = tirx.const(2.0 ** (1 - kind.bias - kind.mantissa), "float32")
    normal = _float((size << _word(23 - kind.mantissa)) + _word((127 - kind.bias) << 23))
    is_denormal = size < _word(1 << kind.mantissa)
    found = tirx.Select(is_denormal, size.astype("float32") * unit, normal)
    if kind.no_negative_zero:
        return _or_nan(_negated(found, code), code == _word(kind.nan))
    last = kind.largest
    if kind.beyond != kind.nan:
        last = kind.beyond
        found = tirx.Select(size == _word(kind.beyond), _float(_word(_INFINITE)), found)
    return _or_nan(_negated(found, code), size > _word(last))


def encode_power(x: PrimExpr, rounding: str, *, saturate: bool) -> PrimExpr:
    """Return the exponent of a number's next power of two: above, below, or the nearest."""
    from tvm import tirx

    bits = _bits(x)
    exponent = (bits >> _word(23)) & _word(0xFF)
    rest, half = bits & _word(0x7FFFFF), _word(0x400000)
    found = exponent
    if rounding == "up":
        found = exponent + tirx.Select(rest > _word(0), _word(1), _word(0))
    elif rounding == "nearest":
        # Halfway counts as odd, unless it is denormal.
        is_up = tirx.any(rest > half, tirx.all(rest == half, exponent > _word(0)))
        found = exponent + tirx.Select(is_up, _word(1), _word(0))
    if saturate:
        found = tirx.Min(found, _word(254))
    return tirx.Select(exponent == _word(0xFF), _word(0xFF), found)


def decode_power(code: PrimExpr) -> PrimExpr:
    """Return 2^(code - 127) as float32; the code 255 is NaN."""
    from tvm import tirx

    found = _float(tirx.Select(code == _word(0), _word(0x400000), code << _word(23)))
    return _or_nan(found, code == _word(0xFF))


def _word(value: int) -> PrimExpr:
    """Return a constant of uint32: of int32 TVM would make indices of another width."""
    from tvm import tirx

    return tirx.const(value, "uint32")


def _bits(x: PrimExpr) -> PrimExpr:
    from tvm import tirx

    return tirx.reinterpret("uint32", x)


def _float(bits: PrimExpr) -> PrimExpr:
    from tvm import tirx

    return tirx.reinterpret("float32", bits)


def _sign(bits: PrimExpr) -> PrimExpr:
    """Return the sign of float32 bits where codes have it."""
    return (bits >> _word(24)) & _word(0x80)


def _negated(x: PrimExpr, code: PrimExpr) -> PrimExpr:
    return _float(_bits(x) | ((code & _word(0x80)) << _word(24)))


def _or_nan(x: PrimExpr, condition: PrimExpr) -> PrimExpr:
    from tvm import tirx

    return tirx.Select(condition, tirx.const(float("nan"), "float32"), x)
