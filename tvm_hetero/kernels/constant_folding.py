"""Operators on constants, computed in numpy while a model is lowered.

TVM's FoldConstant compiles every folded operator with LLVM, which takes longer than all else.
What models do to their weights is a handful of operators that numpy has too. Views stay views
(a transposed matrix is not copied before it is packed), and every result has the type that
Relax inferred for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tvm import relax

    Array = NDArray[Any]
    Rule = Callable[[relax.Call, Sequence[Array]], Array]

# A fold may not blow a constant up: what is larger than this (in values) and larger than all its
# inputs together stays an operator.
_LARGE = 1 << 16


def _shape(call: relax.Call) -> list[int]:
    return [int(extent) for extent in call.ty.shape]


def _reshape(call: relax.Call, args: Sequence[Array]) -> Array:
    return args[0].reshape(_shape(call))


def _permute(call: relax.Call, args: Sequence[Array]) -> Array:
    axes = call.attrs.axes
    return args[0].transpose(None if axes is None else [int(axis) for axis in axes])


def _broadcast(call: relax.Call, args: Sequence[Array]) -> Array:
    return np.broadcast_to(args[0], _shape(call))


def _cast(call: relax.Call, args: Sequence[Array]) -> Array:
    return args[0].astype(_numpy_type(str(call.ty.dtype)))


def _numpy_type(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


def _dequantize(call: relax.Call, args: Sequence[Array]) -> Array:
    """``(data - zero point) * scale``, both along one axis or single values."""
    data, scale, zero = args
    extents = [1] * data.ndim
    if scale.size > 1 or zero.size > 1:
        extents[int(call.attrs.axis)] = -1
    shifted = data.astype(np.float32) - zero.astype(np.float32).reshape(extents)
    return (shifted * scale.reshape(extents)).astype(_numpy_type(str(call.ty.dtype)))


def _elementwise(function: Callable[..., Any]) -> Rule:
    return lambda _call, args: np.asarray(function(*args))


_RULES: dict[str, Rule] = {
    "relax.reshape": _reshape,
    "relax.flatten": _reshape,
    "relax.expand_dims": _reshape,
    "relax.squeeze": _reshape,
    "relax.permute_dims": _permute,
    "relax.broadcast_to": _broadcast,
    "relax.astype": _cast,
    "relax.dequantize": _dequantize,
    "relax.add": _elementwise(np.add),
    "relax.subtract": _elementwise(np.subtract),
    "relax.multiply": _elementwise(np.multiply),
    "relax.divide": _elementwise(np.divide),
    "relax.sqrt": _elementwise(np.sqrt),
    "relax.rsqrt": _elementwise(lambda x: (1 / np.sqrt(x)).astype(x.dtype)),
    "relax.negative": _elementwise(np.negative),
    "relax.exp": _elementwise(np.exp),
    "relax.isnan": _elementwise(np.isnan),
    "relax.where": _elementwise(np.where),
}


def fold(call: relax.Call, known: Callable[[Any], Array | None]) -> Array | None:
    """The value of ``call``, or None where it is not constant or no rule computes it.

    Parameters
    ----------
    call
        A call of a Relax operator, with inferred type.
    known
        Gives the value of an argument, or None.
    """
    rule = _RULES.get(getattr(call.op, "name", ""))
    if rule is None or not _is_static(call):
        return None
    tensors = [arg for arg in call.args if hasattr(arg.ty, "dtype")]
    values = [known(arg) for arg in tensors]
    if not values or any(value is None for value in values):
        return None
    arrays = [value for value in values if value is not None]
    size = math.prod(_shape(call))
    if size > _LARGE and size > sum(array.size for array in arrays):
        return None
    # Integer division truncates in Relax; leave it to TVM.
    if arrays[0].dtype.kind != "f" and call.op.name == "relax.divide":
        return None
    result = rule(call, arrays)
    return result if str(result.dtype) == str(call.ty.dtype) else None


def _is_static(call: relax.Call) -> bool:
    shape = getattr(call.ty, "shape", None)
    if shape is None:
        return False
    try:
        _shape(call)
    except (TypeError, ValueError):
        return False
    return True
