"""A matrix product with a constant right side as a packed multiply-accumulate.

    acc[o // B, m, o % B] += data[m, k] * weight[o // B, k, o % B]

Leading dimensions of the data are joined into ``m``. With one row (batch 1) the kernel streams
every weight once, in the order in which it lies in memory, so that the memory's bandwidth is
the limit; with more rows the same packed weights serve a tile of rows at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from .packing import Layout, choose_layout, pack_dense
from .roles import ACCUMULATE, PAD, UNPACK, role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .vector import VectorUnit


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
        ``[K, O]``, of any strides.
    units
        Vector units of the targets, widest first (`packing.packing_units`).
    """
    data = call.args[0].ty
    extents = [int(e) if isinstance(e, int | tirx.IntImm) else 0 for e in data.shape or ()]
    if len(extents) < 2 or min(extents) < 1 or weight.ndim != 2:
        return None
    if str(data.dtype) != "float32" or str(weight.dtype) != "float32":
        return None
    rows = math.prod(extents[:-1])
    depth, out_channels = weight.shape
    layout = choose_layout(out_channels, rows, depth, units, contiguous="channels")
    if layout is None or depth == 0:
        return None
    return bb.call_te(
        lambda x, w: _compute(x, w, extents, out_channels, layout),
        call.args[0],
        relax.const(pack_dense(weight, layout.block)),
        primfunc_name_hint="dense",
        primfunc_attrs={"op_pattern": 4},  # OutEWiseFusable: bias and activation join it
    )


def _compute(
    data: te.Tensor, filters: te.Tensor, extents: list[int], out_channels: int, layout: Layout
) -> te.Tensor:
    *leading, depth = extents
    rows, block = math.prod(leading), layout.block
    source = _rows(data, leading, depth, rows, layout.points)
    k = te.reduce_axis((0, depth), "k")
    acc = te.compute(
        (int(filters.shape[0]), layout.points, block),
        lambda o, m, i: te.sum(source(m, k) * filters[o, k, i], axis=[k]),
        name="accumulate",
        attrs=role(ACCUMULATE),
    )
    return te.compute(
        (*leading, out_channels),
        lambda *index: acc[index[-1] // block, _join(index[:-1], leading), index[-1] % block],
        name="unpack",
        attrs=role(UNPACK),
    )


def _rows(data: te.Tensor, leading: list[int], depth: int, rows: int, points: int) -> Any:
    """Read access to ``data`` as a matrix of ``points`` rows, those beyond ``rows`` zero."""
    if points == rows:
        return lambda m, k: data[(*_split(m, leading), k)]
    zero = tirx.const(0, data.dtype)
    padded = te.compute(
        (points, depth),
        lambda m, k: tirx.if_then_else(m < rows, data[(*_split(m, leading), k)], zero),
        name="pad",
        attrs=role(PAD),
    )
    return lambda m, k: padded[m, k]


def _join(index: Sequence[Any], extents: Sequence[int]) -> Any:
    joined: Any = 0
    for i, extent in zip(index, extents, strict=True):
        joined = joined * extent + i
    return joined


def _split(joined: Any, extents: Sequence[int]) -> list[Any]:
    index: list[Any] = []
    for extent in reversed(extents[1:]):
        index.insert(0, joined % extent)
        joined = joined // extent
    return [joined, *index]
