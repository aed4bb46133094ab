"""Types of tensors as a file claims them: checked before anything of that size is made."""

from __future__ import annotations

import math
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits
from tvm_hetero.frontends.relay.core.program import RelayTensorType
from tvm_hetero.util.untrusted_names import printable

MOST_ELEMENTS = 2**40


def tensor_type(
    dims: list[Any], dtype: str, where: str, limits: RelayLimits = DEFAULT_LIMITS
) -> RelayTensorType:
    """A checked tensor type: dimensions not negative, a product below 2^63.

    Raises
    ------
    ModelError
        Otherwise.
    """
    if len(dims) > limits.rank:
        raise ModelError(f"{where}: {len(dims)} dimensions; at most {limits.rank} are taken")
    for dim in dims:
        if dim is not None and (not isinstance(dim, int) or dim < 0):
            raise ModelError(f"{where}: a dimension is '{printable(dim, 40)}', expected a number")
    if math.prod(d or 1 for d in dims) > MOST_ELEMENTS:
        raise ModelError(f"{where}: {dims} has too many elements")
    return RelayTensorType(tuple(dims), printable(dtype, 40))
