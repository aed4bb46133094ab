"""Words of two numbers of bfloat16, by arithmetic that every target has.

    word = the first number in the low 16 bits, the second one in the high ones       (int32)

Numbers of float32 are rounded to the nearest, ties to even, as ``vcvtneps2bf16`` does. What is NaN
stays so, and what is infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from tvm import tirx

from tvm_hetero.kernels.tir.statements import broadcast

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Expr = Any

_HALF, _BITS = 0x7FFF, 16
_NAN = 0x7FC0


def pack_bfloat16_words(values: NDArray[Any], axis: int) -> NDArray[np.int32]:
    """Pairs of neighbours along an axis as words; where their number is odd, a zero is the last.

    Of ``[..., n, ...]`` float32 (or bfloat16) that is ``[..., ceil(n / 2), ...]`` int32.
    """
    ahead = np.moveaxis(values, axis, -1)
    if ahead.shape[-1] % 2:
        ahead = np.pad(ahead, [(0, 0)] * (ahead.ndim - 1) + [(0, 1)])
    words = np.ascontiguousarray(ahead.astype(ml_dtypes.bfloat16)).view(np.int32)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis))


def plain_pair(low: Expr, high: Expr, lanes: int = 1) -> Expr:
    """The word of two numbers of float32, rounded."""
    moved = tirx.shift_left(_rounded(high, lanes), _int(_BITS, lanes))
    return tirx.bitwise_or(_rounded(low, lanes), moved)


def plain_bits(value: Expr, lanes: int = 1) -> Expr:
    """The bits of a number of float32 that is rounded to bfloat16 (uint16)."""
    return tirx.Cast(_type("uint16", lanes), _rounded(value, lanes))


def plain_dot(one: Expr, other: Expr, lanes: int = 1) -> Expr:
    """The sum of the two products of two words, in float32."""
    low, high = (_numbers(each, lanes) for each in (one, other))
    return low[0] * high[0] + low[1] * high[1]


def _numbers(word: Expr, lanes: int) -> list[Expr]:
    """The two numbers of a word, as float32."""
    bits = tirx.shift_left(word, _int(_BITS, lanes)), tirx.bitwise_and(word, _int(-65536, lanes))
    return [tirx.reinterpret(_type("float32", lanes), each) for each in bits]


def _rounded(value: Expr, lanes: int) -> Expr:
    """The 16 bits of a number of float32 that is rounded to bfloat16."""
    bits = tirx.reinterpret(_type("uint32", lanes), value)
    sixteen = _int(_BITS, lanes, "uint32")
    odd = tirx.bitwise_and(tirx.shift_right(bits, sixteen), _int(1, lanes, "uint32"))
    near = tirx.shift_right(bits + odd + _int(_HALF, lanes, "uint32"), sixteen)
    found = tirx.Select(value == value, near, _int(_NAN, lanes, "uint32"))
    return tirx.reinterpret(_type("int32", lanes), found)


def _int(value: int, lanes: int, dtype: str = "int32") -> Expr:
    return broadcast(tirx.const(value, dtype), lanes)


def _type(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"
