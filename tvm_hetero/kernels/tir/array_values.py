"""The numbers of TVM's tensors as NumPy's arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import tvm
    from numpy.typing import NDArray

    Array = NDArray[Any]

_NOT_OF_NUMPY = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def array_of(tensor: tvm.runtime.Tensor) -> Array:
    """The values of a tensor: a view, or a copy of types that numpy does not have itself."""
    if str(tensor.dtype) in _NOT_OF_NUMPY:
        return np.asarray(tensor.numpy())
    return np.from_dlpack(tensor)
