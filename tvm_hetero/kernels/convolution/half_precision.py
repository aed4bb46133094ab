"""Convolutions of 16-bit floats, computed in float32.

Few CPUs multiply numbers of float16, and none that we know adds up hundreds of them without loss.
So the data are made float32 first, the weights when a model is lowered, and each sum is rounded
once, when it is complete. What stands between two convolutions (bias, activation) is fused behind
the first, and so is the conversion for the second: the numbers between them are then float32 in
memory, though rounded. Weights take twice the memory that the file has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OPERATORS = {"relax.nn.conv1d": relax.op.nn.conv1d, "relax.nn.conv2d": relax.op.nn.conv2d}
_NARROW = ("float16", "bfloat16")


def widen_convolution(
    bb: relax.BlockBuilder, call: relax.Call, known: Callable[[Any], NDArray[Any] | None]
) -> relax.Call | None:
    """The convolution of the same numbers in float32; None for any other type.

    Parameters
    ----------
    bb
        Receives the conversions of what is not constant.
    call
        A call of ``relax.nn.conv2d`` or ``relax.nn.conv1d``.
    known
        The value of an argument where it is constant, else None.
    """
    types = {str(of.ty.dtype) for of in (call, *call.args)}
    if len(types) > 1 or not types <= set(_NARROW):
        return None
    data, weight = (_wide(bb, arg, known(arg)) for arg in call.args)
    attrs = call.attrs
    wide = _OPERATORS[call.op.name](
        data, weight, attrs.strides, attrs.padding, attrs.dilation, int(attrs.groups),
        attrs.data_layout, attrs.kernel_layout, attrs.out_layout, "float32",
    )  # fmt: skip
    return bb.normalize(wide)


def _wide(bb: relax.BlockBuilder, arg: relax.Expr, value: NDArray[Any] | None) -> relax.Expr:
    if value is None:
        return bb.emit(relax.op.astype(arg, "float32"))
    return relax.const(value.astype(np.float32))
