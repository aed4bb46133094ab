"""As what each element type of ONNX is held in Relax, where two elements never share a byte.

Packed types have no place in the executor's tensors.  Inside a model their elements are held in a
type of whole bytes that has all of their values: of 4 and 2 bits in int8 or uint8, and float4 in
float8_e4m3fn.  Inputs and outputs of a model cannot be of these types.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

_HELD: dict[int, tuple[str, int]] = {
    getattr(TensorProto, name): (held, bits)
    for name, held, bits in (
        ("INT4", "int8", 4), ("UINT4", "uint8", 4), ("INT2", "int8", 2), ("UINT2", "uint8", 2),
        ("FLOAT4E2M1", "float8_e4m3fn", 4),
    )
    if hasattr(TensorProto, name)
}  # fmt: skip

PACKED_BITS = {kind: bits for kind, (_, bits) in _HELD.items()}
"""Bits of each packed type."""


def held_as(kind: int) -> str:
    """Return the name of the type in which elements of an ONNX type are held."""
    if kind in _HELD:
        return _HELD[kind][0]
    return str(helper.tensor_dtype_to_np_dtype(kind).name)


def held_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the data of a constant as it is held."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    if kind not in _HELD:
        return array
    held = _HELD[kind][0]
    return array.astype(np.dtype(getattr(ml_dtypes, held, held)))
