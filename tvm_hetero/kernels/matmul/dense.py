"""A matrix product with a constant side: the constant is packed when the model is compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import tvm
from tvm import relax

from tvm_hetero.kernels.matmul.product import Product, Side, compute, static_extents
from tvm_hetero.kernels.matmul.product_tiles import Extents, choose_product_layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# Types in which weights may be stored, narrowest first, and how many values a side are looked at
# before all of them are.
_NARROW = (np.int8, ml_dtypes.bfloat16, np.float16)
_SAMPLED = 64


def emit_packed_dense(
    bb: relax.BlockBuilder,
    data: relax.Expr,
    weight: NDArray[Any],
    dtype: str,
    units: Sequence[VectorUnit],
) -> relax.Expr | None:
    """``data @ weight`` as a packed kernel, or None where this rule does not fit.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc.
    data
        The left side, of two dimensions at least.
    weight
        The right side, ``[..., K, O]``, of any strides.
    dtype
        Of the result.
    units
        Vector units of the targets, widest first (`packing.packing_units`).
    """
    extents = static_extents(data.ty)
    if len(extents) < 2 or min(extents) < 1 or weight.ndim < 2 or min(weight.shape) < 1:
        return None
    weight = narrow(weight)
    left = Side(extents, tuple(range(len(extents))))
    right = Side(weight.shape, tuple(range(weight.ndim)))
    joined = math.prod(weight.shape[:-2]) == 1
    rows = math.prod(extents[:-1]) if joined else extents[-2]
    needed = Extents(rows, weight.shape[-1], weight.shape[-2], weight.itemsize)
    layout = choose_product_layout(needed, tuple(units))
    if layout is None:
        return None
    # 16 bits are widened once each when they are copied together, not once for each block.
    tall = layout.tall or (layout.points > 1 and _is_narrow(data))
    product = Product(left, right, dtype, layout.block, layout.points, tall)
    return bb.call_te(
        lambda x, w: compute(x, w, product, constant=True),
        data,
        relax.const(tvm.runtime.tensor(_pack(weight, layout.block))),
        primfunc_name_hint="dense",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: bias and activation join it
    )


def _is_narrow(data: relax.Expr) -> bool:
    return str(data.ty.dtype) in ("float16", "bfloat16")


def narrow(weight: NDArray[Any]) -> NDArray[Any]:
    """The values in the narrowest type that holds every one of them exactly.

    Weights that were stored as int8, bfloat16 or float16 and only cast to float32 in front of the
    product read as few bytes as they were stored in: the kernel casts them as it reads them.
    """
    if weight.dtype != np.float32:
        return weight
    sample = weight[..., :: max(1, weight.shape[-2] // _SAMPLED), :_SAMPLED]
    for dtype in _NARROW:
        if _holds(sample, dtype) and _holds(weight, dtype):
            return weight.astype(dtype)
    return weight


def _holds(values: NDArray[Any], dtype: Any) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        back = values.astype(dtype).astype(np.float32)
    return bool(np.array_equal(back.view(np.uint32), values.view(np.uint32)))


def _pack(weight: NDArray[Any], block: int) -> NDArray[Any]:
    """``[..., K, O]`` as ``[matrices, blocks, K, block]``."""
    if math.prod(weight.shape[:-2]) == 1:  # a view of the packed matrix: weights can be large
        return _pack_matrix(weight.reshape(weight.shape[-2:]), block)[np.newaxis]
    matrices = weight.reshape(-1, *weight.shape[-2:])
    return np.stack([_pack_matrix(matrix, block) for matrix in matrices])


def _pack_matrix(weight: NDArray[Any], block: int) -> NDArray[Any]:
    """Pack ``[K, O]`` (of any strides) into ``[blocks, K, block]``."""
    depth, out_channels = weight.shape
    packed = np.zeros((-(-out_channels // block), depth, block), weight.dtype)
    for b in range(len(packed)):  # block by block: a transposed source stays in the cache
        columns = weight[:, b * block : (b + 1) * block]
        packed[b, :, : columns.shape[1]] = columns
    return packed
