"""Gathers whose indices are counted from the end if they are below 0, as ONNX has them.

    take               out[.., i.., ..] = data[.., index[i..], ..]
    gather_elements    out[i..] = data[i[0], .., index[i..], ..]
    gather_nd          out[i.., j..] = data[index[i.., 0], index[i.., 1], .., j..]

A gather whose indices no one counts from the end is left to TVM. What makes both raise an error
where an index is out of bounds is `indexing.checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.gather_scatter.from_the_end import from_the_end, recover_indices

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.legalization import Legalization

    Compute = Callable[[te.Tensor, te.Tensor], te.Tensor]


def take(call: relax.Call, use: Legalization) -> relax.Expr | None:
    """``relax.take`` along an axis; None where the indices are not counted from the end."""
    extents = static_shape(call.args[0])
    if extents is None or call.attrs.mode != "fast" or call.attrs.axis is None:
        return None
    axis = int(call.attrs.axis) % len(extents)

    def compute(data: te.Tensor, index: te.Tensor) -> te.Tensor:
        rank = len(index.shape)

        def value(*at: Any) -> Any:
            place = from_the_end(index(*at[axis : axis + rank]), extents[axis])
            return data[(*at[:axis], place, *at[axis + rank :])]

        shape = (*data.shape[:axis], *index.shape, *data.shape[axis + 1 :])
        return te.compute(shape, value, name="take")

    return _gather(call, use, [extents[axis]], compute)


def gather_elements(call: relax.Call, use: Legalization) -> relax.Expr | None:
    """``relax.gather_elements``; None where the indices are not counted from the end."""
    extents = static_shape(call.args[0])
    if extents is None:
        return None
    axis = int(call.attrs.axis) % len(extents)

    def compute(data: te.Tensor, index: te.Tensor) -> te.Tensor:
        def value(*at: Any) -> Any:
            place = from_the_end(index(*at), extents[axis])
            return data[(*at[:axis], place, *at[axis + 1 :])]

        return te.compute(index.shape, value, name="gather_elements")

    return _gather(call, use, [extents[axis]], compute)


def gather_nd(call: relax.Call, use: Legalization) -> relax.Expr | None:
    """``relax.gather_nd``; None where the indices are not counted from the end."""
    extents, index_extents = static_shape(call.args[0]), static_shape(call.args[1])
    if extents is None or not index_extents:
        return None
    batch, count = int(call.attrs.batch_dims), index_extents[-1]
    lengths = extents[batch : batch + count]

    def compute(data: te.Tensor, index: te.Tensor) -> te.Tensor:
        rank = len(index.shape) - 1

        def value(*at: Any) -> Any:
            places = [from_the_end(index(*at[:rank], c), n) for c, n in enumerate(lengths)]
            return data[(*at[:batch], *places, *at[rank:])]

        shape = (*index.shape[:-1], *data.shape[batch + count :])
        return te.compute(shape, value, name="gather_nd")

    return _gather(call, use, lengths, compute)


def static_shape(expr: relax.Expr) -> list[int] | None:
    """The extents of a tensor, None unless all are fixed."""
    shape = getattr(expr.ty, "shape", None)
    if shape is None or not all(isinstance(n, int | tirx.IntImm) for n in shape):
        return None
    return [int(n) for n in shape]


def _gather(
    call: relax.Call, use: Legalization, lengths: Sequence[int], compute: Compute
) -> relax.Expr | None:
    given = recover_indices(use.builder, use.known, call.args[1], lengths)
    if given is None or static_shape(given) is None:
        return None
    name = call.op.name.rsplit(".", 1)[-1]
    data = use.emitted(call.args[0])
    return use.builder.call_te(compute, data, use.emitted(given), primfunc_name_hint=name)
