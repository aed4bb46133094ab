"""From numbers to their codes and back, as nodes.

    code  = saturate(round(x / scale) + zero)         rounding half to even
    value = (code - zero) * scale

Everything is computed in float32, which holds all codes of up to 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

_T = TensorProto
# Least and greatest code of each type; those of floating types are saturated by Cast.
_RANGES: dict[int, tuple[int, int]] = {
    _T.INT8: (-128, 127),
    _T.UINT8: (0, 255),
    _T.INT16: (-(2**15), 2**15 - 1),
    _T.UINT16: (0, 2**16 - 1),
    _T.INT4: (-8, 7),
    _T.UINT4: (0, 15),
    _T.INT2: (-2, 1),
    _T.UINT2: (0, 3),
}
_FLOATS = frozenset(
    {
        _T.FLOAT8E4M3FN,
        _T.FLOAT8E4M3FNUZ,
        _T.FLOAT8E5M2,
        _T.FLOAT8E5M2FNUZ,
        _T.FLOAT4E2M1,
    }
)


@dataclass(frozen=True)
class Quantizer:
    """Scale and zero point, as values that broadcast with what they are for.

    Attributes
    ----------
    scale : str
        Of float32.
    zero : str
        Of float32; '' where it is 0.
    code : int
        ONNX element type of the codes.
    """

    scale: str
    zero: str
    code: int


def as_float(r: Rewriting, name: str, element_type: int | None = None) -> str:
    """Return a value in float32.

    Parameters
    ----------
    r : Rewriting
        The node.
    name : str
        A value.
    element_type : int, optional
        Its type, where it is not an operand of the node.
    """
    if (element_type or r.element_type(name)) == _T.FLOAT:
        return name
    return r.add("Cast", [name], to=_T.FLOAT)


def float_zero(r: Rewriting, name: str) -> str:
    """Return a zero point in float32, '' if there is none or it is known to be 0."""
    if not name:
        return ""
    known = r.array(name)
    if known is not None and not np.any(known.astype(np.float32)):
        return ""
    return as_float(r, name)


def centred(r: Rewriting, name: str, zero: str) -> str:
    """Return codes less their zero point (of float32, '' for 0), in float32."""
    value = as_float(r, name)
    return r.exact(r.add("Sub", [value, zero])) if zero else value


def add_dequantized(
    r: Rewriting, name: str, quantizer: Quantizer, outputs: int | list[str] = 1
) -> str:
    """Add ``(code - zero) * scale`` of an operand; returns the result's name."""
    return r.add("Mul", [centred(r, name, quantizer.zero), quantizer.scale], outputs)


def add_codes(r: Rewriting, scaled: str, quantizer: Quantizer, outputs: int | list[str]) -> str:
    """Add the codes of what has been divided by the scale.

    Parameters
    ----------
    r : Rewriting
        The node.
    scaled : str
        Of float32.
    quantizer : Quantizer
        Its zero point and type of codes are asked for.
    outputs : int or list of str
        As `Rewriting.add` takes them.
    """
    if quantizer.code in _FLOATS:
        return r.add("Cast", [scaled], outputs, to=quantizer.code)
    low, high = code_range(r, quantizer.code)
    codes = r.add("Round", [scaled])
    if quantizer.zero:
        codes = r.add("Add", [codes, quantizer.zero])
    limits = [r.constant(limit, np.float32) for limit in (low, high)]
    clipped = r.bounded(r.add("Clip", [codes, *limits]))
    return r.add("Cast", [clipped], outputs, to=quantizer.code)


def add_quantized(r: Rewriting, x: str, quantizer: Quantizer, outputs: int | list[str]) -> str:
    """Add the codes of a value of float32; returns the result's name."""
    return add_codes(r, r.exact(r.add("Div", [x, quantizer.scale])), quantizer, outputs)


def code_range(r: Rewriting, element_type: int) -> tuple[int, int]:
    """Return the least and the greatest code of a type; refuses others."""
    if element_type not in _RANGES:
        kind = helper.tensor_dtype_to_string(element_type)
        r.refuse(f"makes or reads codes of {kind}, which is no type of quantized numbers")
    return _RANGES[element_type]


def scalar_quantizer(r: Rewriting, scale: int, zero: int, code: int | None = None) -> Quantizer:
    """Return the quantizer of one scale and one zero point, by the positions of the operands.

    Parameters
    ----------
    r : Rewriting
        The node.
    scale, zero : int
        Where its operands are; there may be none at `zero`.
    code : int, optional
        Type of the codes; that of the zero point, or else uint8, if not given.
    """
    name = r.operand(zero)
    found = code or (r.element_type(name) if name else _T.UINT8)
    scale_name, zero_name = (
        _scalar(r, each) if each else ""
        for each in (as_float(r, r.operand(scale)), float_zero(r, name))
    )
    return Quantizer(scale_name, zero_name, found)


def _scalar(r: Rewriting, name: str) -> str:
    """Return a value of one element without dimensions, so that it takes on any shape."""
    return r.add("Reshape", [name, r.constant(np.zeros(0), np.int64)])


def along(r: Rewriting, name: str, dims: Sequence[int], rank: int, axis: int) -> str:
    """Return a value of (n,), which lies along an axis, with the other dimensions as 1.

    Parameters
    ----------
    r : Rewriting
        The node.
    name : str
        A value; one of a single element is given no dimensions.
    dims : sequence of int
        Its dimensions.
    rank, axis : int
        Of what it is to be broadcast with.
    """
    if not name:
        return ""
    count = int(np.prod(dims, dtype=np.int64))
    shape = [] if count == 1 else [1] * rank
    if count != 1:
        shape[axis % rank] = count
    return r.add("Reshape", [name, r.constant(np.array(shape), np.int64)])


def known_codes(r: Rewriting, name: str) -> np.ndarray | None:
    """Return constant codes as whole numbers, None where they are not constant."""
    found = r.array(name)
    if found is None:
        return None
    if found.dtype in (ml_dtypes.int4, ml_dtypes.uint4):
        return found.astype(np.int8)
    return found
