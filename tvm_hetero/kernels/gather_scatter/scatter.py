"""Scatters: a copy of the data, of which indices tell the places that are written.

    scatter_elements    out[i[0], .., index[i..], ..] = updates[i..]
    scatter_nd          out[index[i.., 0], index[i.., 1], .., j..] = updates[i.., j..]

or, by the reduction, what stands there plus, times, or the least or largest of both. Where two
indices are equal, updates come in their order.

TVM's own join all axes to one, so that an index beyond its axis writes in the next row: neither
the answer nor an error. Here each index stands for itself, and `indexing.checks` finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import relax, tirx

from tvm_hetero.kernels.gather_scatter.from_the_end import from_the_end, recover_indices
from tvm_hetero.kernels.gather_scatter.gather import static_shape
from tvm_hetero.kernels.tir.statements import function, load, loop, store, tensor, wide

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.legalization import Legalization

    Expr = Any
    At = Sequence[Expr]

_REDUCTIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "update": lambda _, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": tirx.min,
    "max": tirx.max,
}


def scatter_elements(call: relax.Call, use: Legalization) -> relax.Expr | None:
    """``relax.scatter_elements``; None for a mean. Indices below 0 are counted from the end."""
    extents = static_shape(call.args[0])
    if extents is None:
        return None
    axis = int(call.attrs.axis) % len(extents)

    def place(index: tirx.Var, at: At) -> list[Expr]:
        return [*at[:axis], from_the_end(load(index, *at), extents[axis]), *at[axis + 1 :]]

    return _scatter(call, use, call.args[1], place)


def scatter_nd(call: relax.Call, use: Legalization) -> relax.Expr | None:
    """``relax.scatter_nd``; None for what is not supported."""
    extents, index_extents = static_shape(call.args[0]), static_shape(call.args[1])
    if extents is None or not index_extents:
        return None
    rank, lengths = len(index_extents) - 1, extents[: index_extents[-1]]
    given = recover_indices(use.builder, use.known, call.args[1], lengths)

    def place(index: tirx.Var, at: At) -> list[Expr]:
        places = [load(index, *at[:rank], c) for c in range(len(lengths))]
        if given is not None:
            places = [from_the_end(p, n) for p, n in zip(places, lengths, strict=True)]
        return [*(wide(p) for p in places), *at[rank:]]

    return _scatter(call, use, call.args[1] if given is None else given, place)


def _scatter(
    call: relax.Call,
    use: Legalization,
    indices: relax.Expr,
    place: Callable[[tirx.Var, At], list[Expr]],
) -> relax.Expr | None:
    """A scatter that writes where ``place`` says for each of the updates."""
    data, indices, updates = (use.emitted(e) for e in (call.args[0], indices, call.args[2]))
    shapes = [shape for e in (data, indices, updates) if (shape := static_shape(e)) is not None]
    reduction, dtype = str(call.attrs.reduction), str(data.ty.dtype)
    joined = _REDUCTIONS.get(reduction)
    if joined is None or len(shapes) < 3 or (dtype == "bool" and reduction != "update"):
        return None
    kinds = [str(expr.ty.dtype) for expr in (data, indices, updates)]
    names = ("data", "index", "updates")
    args = [tensor(n, shape, k) for n, shape, k in zip(names, shapes, kinds, strict=True)]
    out = tensor("out", shapes[0], dtype)

    def write(at: At) -> tirx.Stmt:
        to = place(args[1], at)
        return store(out, to, joined(load(out, *to), load(args[2], *at)))

    body = [
        _each(shapes[0], lambda at: store(out, at, load(args[0], *at))),
        _each(shapes[2], write),
    ]
    name = call.op.name.rsplit(".", 1)[-1]
    func = function([*args, out], body, name, [out], attrs={"op_pattern": 8})
    variable = use.builder.add_func(func, name)
    return relax.call_tir(variable, [data, indices, updates], relax.TensorType(shapes[0], dtype))


def _each(shape: Sequence[int], body: Callable[[At], tirx.Stmt]) -> tirx.Stmt:
    """Loops over all places of a tensor."""

    def below(at: At) -> tirx.Stmt:
        if len(at) == len(shape):
            return body(at)
        return loop(f"i{len(at)}", shape[len(at)], lambda i: below([*at, i]))

    return below([])
