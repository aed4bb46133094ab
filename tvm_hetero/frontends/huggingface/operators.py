"""What a decoder computes beside matrix products and attention, each as one kernel.

    embed         a token's row of the table, with the row of its position where there is one
    look_up       a number's row of a table
    rms_norm      x / sqrt(mean(x^2) + epsilon) * w
    layer_norm    (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * w + b
    pick          the row of the token whose logits are wanted
    total         the sum of what shards or experts have computed
    choose        to which experts a token is given, and with which weight
    gated         a value times an expert's weight, or 0 where the token is not given to it

As TVM's own operators a norm would be several kernels. Rows and positions are clamped to the table
that they are for, since those of a padded chunk may be beyond it; a token that is beyond its table
is an error when the kernel runs (`tvm_hetero.kernels.indexing.checks`).

`add_all`, `embed`, `take_row` and `route_tokens` are opaque: they are tasks of their own and are
not fused into a neighbour, which would then have to wait for all that they read. `gate_rows` is
marked, so that a kernel which ends in it can be skipped where all weights are 0
(`tvm_hetero.kernels.tir.zero_skip`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.tir.zero_skip import guard_attr

_ELEMENTWISE, _INJECTIVE, _OUTPUT_FUSABLE, _OPAQUE = 0, 2, 4, 8


def embed(
    bb: relax.BlockBuilder,
    token: relax.Expr,
    position: relax.Expr,
    tables: Sequence[relax.Expr],
) -> relax.Expr:
    """``tables[0][token]``, plus ``tables[1][position + row]`` where there is a second table."""

    def compute(token: te.Tensor, position: te.Tensor, *tables: te.Tensor) -> te.Tensor:
        def value(i: Any, j: Any) -> Any:
            found = _float(tables[0], token(i), j)
            for table in tables[1:]:
                found = found + _float(table, _clamped(position[0] + i, table), j)
            return found

        return te.compute((token.shape[0], tables[0].shape[1]), value, name="embed")

    return _kernel(bb, compute, [token, position, *tables], "embed", _OPAQUE)


def look_up(bb: relax.BlockBuilder, table: relax.Expr, numbers: relax.Expr) -> relax.Expr:
    """The row of a table for each number; one beyond the table is an error when it runs.

    TVM's own ``take`` would do, but it warns on stderr of what the check makes impossible.
    """

    def compute(table: te.Tensor, numbers: te.Tensor) -> te.Tensor:
        shape = (numbers.shape[0], table.shape[1])
        return te.compute(shape, lambda i, j: table(numbers(i), j), name="look_up")

    return _kernel(bb, compute, [table, numbers], "look_up", _INJECTIVE)


def rms_norm(bb: relax.BlockBuilder, x: relax.Expr, w: relax.Expr, epsilon: float) -> relax.Expr:
    """Each row divided by the root of its mean square, times ``w``."""

    def compute(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        rows, width = x.shape
        k = te.reduce_axis((0, width), "k")
        squares = te.compute((rows,), lambda i: te.sum(x[i, k] * x[i, k], axis=[k]), name="squares")
        inverse = _inverse_root(squares, epsilon, width)
        return te.compute(x.shape, lambda i, j: x[i, j] * inverse[i] * w[j], name="rms_norm")

    return _kernel(bb, compute, [x, w], "rms_norm", _OUTPUT_FUSABLE)


def layer_norm(
    bb: relax.BlockBuilder, x: relax.Expr, w: relax.Expr, b: relax.Expr, epsilon: float
) -> relax.Expr:
    """Each row with mean 0 and variance 1, times ``w``, plus ``b``."""

    def compute(x: te.Tensor, w: te.Tensor, b: te.Tensor) -> te.Tensor:
        rows, width = x.shape
        k = te.reduce_axis((0, width), "k")
        total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=[k]), name="total")
        share = _real(1.0 / int(width))
        mean = te.compute((rows,), lambda i: total[i] * share, name="mean")
        r = te.reduce_axis((0, width), "r")
        squares = te.compute(
            (rows,),
            lambda i: te.sum((x[i, r] - mean[i]) * (x[i, r] - mean[i]), axis=[r]),
            name="squares",
        )
        inverse = _inverse_root(squares, epsilon, width)
        return te.compute(
            x.shape,
            lambda i, j: (x[i, j] - mean[i]) * inverse[i] * w[j] + b[j],
            name="layer_norm",
        )

    return _kernel(bb, compute, [x, w, b], "layer_norm", _OUTPUT_FUSABLE)


def take_row(bb: relax.BlockBuilder, x: relax.Expr, row: relax.Expr) -> relax.Expr:
    """Row ``row`` of ``x``, as a matrix of one row."""

    def compute(x: te.Tensor, row: te.Tensor) -> te.Tensor:
        return te.compute((1, x.shape[1]), lambda _, j: x[_clamped(row[0], x), j], name="pick")

    return _kernel(bb, compute, [x, row], "pick", _OPAQUE)


def add_all(bb: relax.BlockBuilder, parts: Sequence[relax.Expr]) -> relax.Expr:
    """The sum of tensors of one shape, in their order; a vector is added to each row."""
    if len(parts) == 1:
        return parts[0]

    def compute(*parts: te.Tensor) -> te.Tensor:
        def value(i: Any, j: Any) -> Any:
            read = [part[i, j] if len(part.shape) == 2 else part[j] for part in parts]
            found = read[0]
            for one in read[1:]:
                found = found + one
            return found

        return te.compute(parts[0].shape, value, name="total")

    return _kernel(bb, compute, parts, "total", _OPAQUE)


def route_tokens(bb: relax.BlockBuilder, logits: relax.Expr, chosen: int) -> list[relax.Expr]:
    """For each expert the weight ``[rows, 1]`` that each token gives it: 0 for most of them.

    A token is given to the ``chosen`` experts of the largest logits (of equal ones to the first),
    with the softmax of these logits alone. That is what is left of the softmax of all, divided by
    the sum of the chosen ones.
    """
    rows, experts = (int(extent) for extent in logits.ty.shape)

    def compute(x: te.Tensor) -> list[te.Tensor]:
        f, k, s = (te.reduce_axis((0, experts), name) for name in "fks")
        rank = te.compute(
            (rows, experts),
            lambda i, e: te.sum(_above(x, i, e, f).astype("int32"), axis=[f]),
            name="rank",
        )
        most = te.compute((rows,), lambda i: te.max(x[i, k], axis=[k]), name="most")
        power = te.compute(
            (rows, experts),
            lambda i, e: tirx.Select(rank[i, e] < chosen, te.exp(x[i, e] - most[i]), _real(0.0)),
            name="power",
        )
        whole = te.compute((rows,), lambda i: te.sum(power[i, s], axis=[s]), name="whole")
        return [_share(power, whole, e) for e in range(experts)]

    weights = _kernel(bb, compute, [logits], "choose", _OPAQUE)
    if experts == 1:
        return [weights]  # of one result TVM makes no tuple
    return [bb.emit(relax.TupleGetItem(weights, e)) for e in range(experts)]


def gate_rows(
    bb: relax.BlockBuilder, value: relax.Expr, weight: relax.Expr, *, times: bool
) -> relax.Expr:
    """``value`` in the rows whose weight is not 0, 0 in all others; ``times``: times the weight."""

    def compute(value: te.Tensor, weight: te.Tensor) -> te.Tensor:
        def one(i: Any, j: Any) -> Any:
            found = value[i, j] * weight[i, 0] if times else value[i, j]
            return tirx.Select(weight[i, 0] != _real(0.0), found, tirx.const(0.0, value.dtype))

        return te.compute(value.shape, one, name="gated", attrs=guard_attr())

    return _kernel(bb, compute, [value, weight], "gated", _ELEMENTWISE)


def _kernel(
    bb: relax.BlockBuilder,
    compute: Callable[..., Any],
    args: Sequence[relax.Expr],
    name: str,
    pattern: int,
) -> relax.Expr:
    return bb.emit_te(
        compute, *args, primfunc_name_hint=name, primfunc_attrs={"op_pattern": pattern}
    )


def _inverse_root(squares: te.Tensor, epsilon: float, width: Any) -> te.Tensor:
    share, least = _real(1.0 / int(width)), _real(epsilon)
    return te.compute(
        squares.shape,
        lambda i: _real(1.0) / te.sqrt(squares[i] * share + least),
        name="inverse",
    )


def _share(power: te.Tensor, whole: te.Tensor, e: int) -> te.Tensor:
    """The weight that each token gives expert ``e``."""
    rows = power.shape[0]
    return te.compute((rows, 1), lambda i, _: power[i, e] / whole[i], name=f"weight{e}")


def _above(x: te.Tensor, i: Any, e: Any, f: Any) -> Any:
    """Whether expert ``f`` comes before expert ``e`` for token ``i``."""
    return tirx.any(x[i, f] > x[i, e], tirx.all(x[i, f] == x[i, e], f < e))


def _clamped(index: Any, table: te.Tensor) -> Any:
    return tirx.max(tirx.min(index, int(table.shape[0]) - 1), 0)


def _float(table: te.Tensor, index: Any, j: Any) -> Any:
    """A number of a row of a table, as float32."""
    value = table(index, j)
    return value if str(table.dtype) == "float32" else value.astype("float32")


def _real(value: float) -> Any:
    return tirx.const(value, "float32")
