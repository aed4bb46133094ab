"""Pools that TVM's importer does not know: places of maxima, norms, LRN over an even window.

The index that ``MaxPool`` gives beside each maximum is its place in the whole operand, flattened;
``storage_order`` 1 counts the last axes the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts

if TYPE_CHECKING:
    from tvm import relax, te
    from tvm.tirx import PrimExpr


@converts("MaxPool")
def convert_max_pool(c: Conversion) -> list[relax.Expr] | None:
    """Find the largest element of each window, and where it is."""
    if not c.wants(1):
        return None
    form = _PooledWindows(c)
    dims = form.dims
    columns_first = c.flag("storage_order")

    def pool(x: te.Tensor) -> list[te.Tensor]:
        from tvm import te, tirx

        lowest, largest = _place_reducer(c.dtype(0))
        windows = form.reduced()

        def best(n: Any, ch: Any, *at: Any) -> Any:
            where, inside = form.place(at, windows)
            value = tirx.if_then_else(inside, x[(n, ch, *where)], lowest)
            order = where[::-1] if columns_first else where
            extents = dims[2:][::-1] if columns_first else dims[2:]
            place = (n * dims[1] + ch).astype("int64")
            for w, extent in zip(order, extents, strict=True):
                place = place * extent + w
            far = tirx.const(math.prod(dims), "int64")
            return largest((tirx.Select(inside, place.astype("int64"), far), value), axis=windows)

        places, values = te.compute([dims[0], dims[1], *form.sizes], best, name="max_pool")
        return [
            te.compute(values.shape, lambda *at: values[at], name="maximum"),
            te.compute(places.shape, lambda *at: places[at], name="place"),
        ]

    from tvm import relax

    both = c.emit_te(pool, c.operand(0), primfunc_name_hint="max_pool_with_places")
    return [c.emit(relax.TupleGetItem(both, i)) for i in range(2)]


class _PooledWindows:
    """The windows of a pooling node.

    Attributes
    ----------
    dims : tuple of int
        Of the operand.
    rank : int
        Axes that are pooled: all but the first two.
    sizes : list of int
        Windows along each of them.
    """

    def __init__(self, c: Conversion) -> None:
        self.dims = c.dims(0)
        self.rank = rank = len(self.dims) - 2
        self.kernel = list(c.attribute("kernel_shape"))
        self.strides = list(c.attribute("strides") or [1] * rank)
        self.dilations = list(c.attribute("dilations") or [1] * rank)
        pads = [0] * 2 * rank if c.attribute("auto_pad") == "VALID" else c.attribute("pads")
        self.pads = list(pads or [0] * 2 * rank)
        self.sizes = [
            pooled_size(
                self.dims[d + 2],
                (self.kernel[d] - 1) * self.dilations[d] + 1,
                self.strides[d],
                (self.pads[d], self.pads[d + rank]),
                ceil=c.flag("ceil_mode"),
            )
            for d in range(rank)
        ]

    def reduced(self) -> list[te.IterVar]:
        """Return the axes over a window."""
        from tvm import te

        return [te.reduce_axis((0, k), f"k{d}") for d, k in enumerate(self.kernel)]

    def place(self, at: Sequence[Any], windows: Sequence[Any]) -> tuple[list[Any], Any]:
        """Return where an element of a window lies, and whether that is inside."""
        from tvm import tirx

        where = [
            at[d] * self.strides[d] + windows[d] * self.dilations[d] - self.pads[d]
            for d in range(self.rank)
        ]
        bounds = [tirx.all(w >= 0, w < self.dims[d + 2]) for d, w in enumerate(where)]
        return where, tirx.all(*bounds)


@converts("LpPool")
def convert_lp_pool(c: Conversion) -> relax.Expr:
    """Take the root of the sum of powers of each window, whose outside counts nothing."""
    form, p = _PooledWindows(c), int(c.attribute("p", 2))
    dtype = c.dtype(0)

    def pool(x: te.Tensor) -> te.Tensor:
        from tvm import te, tirx

        windows = form.reduced()
        zero = tirx.const(0, dtype)

        def power(n: Any, ch: Any, *at: Any) -> Any:
            where, inside = form.place(at, windows)
            value = tirx.if_then_else(inside, tirx.abs(x[(n, ch, *where)]), zero)
            return te.sum(_power(value, p), axis=windows)

        total = te.compute([*form.dims[:2], *form.sizes], power, name="powers")
        return te.compute(total.shape, lambda *at: _root(total[at], p, dtype), name="lp_pool")

    return c.emit_te(pool, c.operand(0), primfunc_name_hint="lp_pool")


def _power(x: Any, p: int) -> Any:
    """Return x ** p for a whole p, by products."""
    found = x
    for _ in range(p - 1):
        found = found * x
    return found


def _root(x: Any, p: int, dtype: str) -> Any:
    from tvm import tirx

    if p <= 2:
        return tirx.sqrt(x) if p == 2 else x
    return tirx.pow(x, tirx.const(1 / p, dtype))


def _place_reducer(dtype: str) -> tuple[PrimExpr, Any]:
    """Return the lowest value, and a reduction to the first place of the largest."""
    from tvm import te, tirx

    lowest = tirx.min_value(dtype)
    if dtype.startswith("float"):
        lowest = -tirx.infinity(dtype)
    last = 2**62

    def combine(one: Any, other: Any) -> tuple[Any, Any]:
        wins = tirx.any(other[1] > one[1], tirx.all(other[1] == one[1], other[0] < one[0]))
        return tirx.Select(wins, other[0], one[0]), tirx.Select(wins, other[1], one[1])

    reducer = te.comm_reducer(
        combine, lambda kind, _: (tirx.const(last, kind), lowest), name="largest"
    )
    return lowest, reducer


def pooled_size(length: int, extent: int, stride: int, pads: Sequence[int], *, ceil: bool) -> int:
    """Return how many windows there are along an axis."""
    room = length + sum(pads) - extent
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    # The last window begins within the operand or its first pads.
    return count - ((count - 1) * stride >= length + pads[0])


@converts("LRN")
def convert_lrn(c: Conversion) -> relax.Expr | None:
    """Normalize over an even window of channels, one more of which lies after than before."""
    size = int(c.attribute("size"))
    if size < 1:
        c.refuse(f"sums over windows of {size} channels; expected 1 or more")
    if size % 2:
        return None
    dims = c.dims(0)
    before = (size - 1) // 2
    alpha, beta = c.attribute("alpha", 1e-4), c.attribute("beta", 0.75)
    bias = c.attribute("bias", 1.0)

    def lrn(x: te.Tensor) -> te.Tensor:
        from tvm import te, tirx

        k = te.reduce_axis((0, size), "k")
        zero = tirx.const(0, c.dtype(0))

        def squares(n: Any, ch: Any, *at: Any) -> Any:
            other = ch + k - before
            inside = tirx.all(other >= 0, other < dims[1])
            value = tirx.if_then_else(inside, x[(n, other, *at)], zero)
            return te.sum(value * value, axis=k)

        total = te.compute(dims, squares, name="squares")

        def normalized(*at: Any) -> Any:
            scale = tirx.const(bias, c.dtype(0)) + total[at] * tirx.const(alpha / size, c.dtype(0))
            return x[at] / tirx.pow(scale, tirx.const(beta, c.dtype(0)))

        return te.compute(dims, normalized, name="lrn")

    return c.emit_te(lrn, c.operand(0), primfunc_name_hint="lrn")
