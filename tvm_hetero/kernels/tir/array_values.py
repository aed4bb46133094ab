"""The numbers of TVM's tensors as NumPy's arrays, and arrays as constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_NOT_OF_NUMPY = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def array_of(tensor: tvm.runtime.Tensor) -> Array:
    """The values of a tensor: a view, or a copy of types that numpy does not have itself."""
    if str(tensor.dtype) in _NOT_OF_NUMPY:
        return np.asarray(tensor.numpy())
    return np.from_dlpack(tensor)


def constant_of(array: Array) -> relax.Expr:
    """A constant of the array's own type: ``relax.const`` of an array makes 32 bits of 64."""
    return relax.const(tvm.runtime.tensor(np.ascontiguousarray(array)))
