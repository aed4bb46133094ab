"""A matrix product with a constant side: the constant is packed when the model is compiled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, tirx

from .packing import pack_dense
from .product import Product, Side, compute
from .product_tiles import Extents, choose_product_layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .facts import VectorUnit


def packed_dense(
    bb: relax.BlockBuilder, call: relax.Call, weight: NDArray[Any], units: Sequence[VectorUnit]
) -> relax.Expr | None:
    """The call as a packed kernel, or None where this rule does not fit.

    Parameters
    ----------
    bb
        Builder that receives the PrimFunc.
    call
        A call of ``relax.matmul`` whose right side is ``weight``.
    weight
        ``[..., K, O]``, of any strides.
    units
        Vector units of the targets, widest first (`packing.packing_units`).
    """
    data = call.args[0].ty
    extents = static_extents(data)
    if len(extents) < 2 or min(extents) < 1 or weight.ndim < 2 or min(weight.shape) < 1:
        return None
    left = Side(extents, tuple(range(len(extents))))
    right = Side(weight.shape, tuple(range(weight.ndim)))
    joined = math.prod(weight.shape[:-2]) == 1
    rows = math.prod(extents[:-1]) if joined else extents[-2]
    needed = Extents(rows, weight.shape[-1], weight.shape[-2], weight.itemsize)
    layout = choose_product_layout(needed, tuple(units))
    if layout is None:
        return None
    product = Product(left, right, str(call.ty.dtype), layout.block, layout.points, layout.tall)
    return bb.call_te(
        lambda x, w: compute(x, w, product, constant=True),
        call.args[0],
        relax.const(_pack(weight, layout.block)),
        primfunc_name_hint="dense",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: bias and activation join it
    )


def static_extents(ty: Any) -> tuple[int, ...]:
    """The extents of a tensor type, 0 for each that is not known, none where the rank is not."""
    return tuple(int(e) if isinstance(e, int | tirx.IntImm) else 0 for e in ty.shape or ())


def _pack(weight: NDArray[Any], block: int) -> NDArray[Any]:
    """``[..., K, O]`` as ``[matrices, blocks, K, block]``."""
    matrices = weight.reshape(-1, *weight.shape[-2:])
    return np.stack([pack_dense(matrix, block) for matrix in matrices])
