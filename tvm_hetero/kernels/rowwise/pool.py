"""Maximum and average pooling: rows first, then columns, in whole vectors; a maximum of codes, too.

A window of KH x KW needs KH + KW - 2 operations a value instead of KH * KW - 1 where the rows of
a window are joined first. Stages, each a block with a role (see `tir.block_roles`):

    rows      r[y, x] = max or sum over the rows of a window; rows beyond the image are clamped
              to its edge (a maximum) or masked (a sum)                           -> `_rows`
    streams   one a column of the window: s[k, u] = r[y, u * stride + k - left], the identity
              beyond the image                                    -> `_streams`, `_padded_row`
    window    max or sum over the streams
    unpack    the columns that exist

Two schedules (`pool_schedule`), chosen by the shape when the kernel is built:

    in registers   strides above one, and images of at most `_NARROW` columns: straight code,
                   LLVM turns streams into shuffles of registers
    in memory      stride one, wider: streams are one padded row, read at KW offsets

Derivation: docs/method/pooling.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.tir.block_roles import UNPACK, role
from tvm_hetero.kernels.tir.blocks import mask_value

ROWS, STREAMS, WINDOW = "pool.rows", "pool.streams", "pool.window"

# Types of which a maximum is taken, too: codes of quantized images.
_CODES = ("uint8", "int8")
_NARROW = 16
_WIDEST_IN_REGISTERS = 256


@dataclass(frozen=True)
class _Pool:
    """One pooling: [batch, channels, height, width] to [.., out_height, out_width]."""

    largest: bool
    extents: tuple[int, int, int, int]
    out_height: int
    out_width: int
    window: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    top: int
    left: int
    padding_counts: bool
    dtype: str = "float32"

    @property
    def in_registers(self) -> bool:
        """Which of the two schedules fits the shape."""
        if self.stride[1] == 1:
            return self.out_width <= _NARROW
        return self.extents[3] <= _WIDEST_IN_REGISTERS

    @property
    def columns(self) -> int:
        """Columns of the output, rounded up to whole vectors."""
        if self.out_width <= _NARROW:
            return 1 << (self.out_width - 1).bit_length()
        return math.ceil(self.out_width / _NARROW) * _NARROW

    @property
    def identity(self) -> tirx.PrimExpr:
        """What changes no result."""
        return tirx.min_value(self.dtype) if self.largest else tirx.const(0, self.dtype)

    def join(self, values: Sequence[Any]) -> Any:
        """Maximum or sum."""
        result = values[0]
        for value in values[1:]:
            result = tirx.Max(result, value) if self.largest else result + value
        return result


def make_pool2d(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    """``max_pool2d`` or ``avg_pool2d`` as a kernel of ours, None where this rule does not fit."""
    call = bb.normalize(call)
    pool = _pool_of(call)
    if pool is None:
        return None
    data = call.args[0]
    if not pool.largest and (pool.out_height, pool.out_width) == (1, 1) and _is_whole(pool):
        return bb.emit(relax.op.mean(data, [2, 3], keepdims=True))
    return bb.call_te(
        lambda x: _compute(x, pool),
        data,
        primfunc_name_hint=call.op.name.rsplit(".", 1)[-1],
        primfunc_attrs={"op_pattern": 4},
    )


def _pool_of(call: relax.Call) -> _Pool | None:
    attrs, data = call.attrs, call.args[0].ty
    extents, out = _images(data.shape), _images(call.ty.shape)
    largest = call.op.name == "relax.nn.max_pool2d"
    if (
        str(data.dtype) not in (("float32", *_CODES) if largest else ("float32",))
        or attrs.layout != "NCHW"
        or str(attrs.out_layout) not in ("", "NCHW")
        or extents is None
        or out is None
    ):
        return None
    pool = _Pool(
        largest=largest,
        extents=extents,
        out_height=out[2],
        out_width=out[3],
        window=_pair(attrs.pool_size),
        stride=_pair(attrs.strides),
        dilation=_pair(attrs.dilation),
        top=int(attrs.padding[0]),
        left=int(attrs.padding[1]),
        padding_counts=bool(attrs.count_include_pad),
        dtype=str(data.dtype),
    )
    overhang = bool(attrs.ceil_mode) and not pool.largest  # whose divisor TVM knows, not we
    return None if overhang or _has_empty_window(pool) else pool


def _images(shape: Any) -> tuple[int, int, int, int] | None:
    """Four extents that are known and not zero, else None."""
    extents = list(shape or ())
    if len(extents) != 4 or not all(isinstance(e, int | tirx.IntImm) for e in extents):
        return None
    n, c, y, x = (int(e) for e in extents)
    return (n, c, y, x) if min(n, c, y, x) > 0 else None


def _pair(values: Any) -> tuple[int, int]:
    first, second = (int(value) for value in values)
    return first, second


def _has_empty_window(pool: _Pool) -> bool:
    """True where a window may see nothing of the image: not ours to define."""
    spans = [(k - 1) * d for k, d in zip(pool.window, pool.dilation, strict=True)]
    first = (-pool.top, -pool.left)
    last = [
        (n - 1) * s + p
        for n, s, p in zip((pool.out_height, pool.out_width), pool.stride, first, strict=True)
    ]
    return (
        any(p + span < 0 for p, span in zip(first, spans, strict=True))
        or any(p >= n for p, n in zip(last, pool.extents[2:], strict=True))
        or (max(pool.dilation) > 1 and max(pool.top, pool.left) > 0)
    )


def _is_whole(pool: _Pool) -> bool:
    return pool.window == pool.extents[2:] and not (pool.top or pool.left)


def _compute(data: te.Tensor, pool: _Pool) -> te.Tensor:
    rows = _rows(data, pool)
    read = _streams(rows, pool) if pool.in_registers else _padded_row(rows, pool)
    batch, channels = pool.extents[:2]
    part = _part(pool)
    window = te.compute(
        (batch, channels, pool.out_height, pool.columns // part, part)
        if pool.in_registers
        else (batch, channels, pool.out_height, pool.out_width),
        lambda n, c, y, *x: pool.join([read(n, c, y, k, *x) for k in range(pool.window[1])]),
        name="window",
        attrs=role(WINDOW),
    )
    return te.compute(
        (batch, channels, pool.out_height, pool.out_width),
        lambda n, c, y, x: _mean(
            window[n, c, y, x // part, x % part] if pool.in_registers else window[n, c, y, x],
            x, pool,
        ),
        name="unpack",
        attrs=role(UNPACK),
    )  # fmt: skip


def _part(pool: _Pool) -> int:
    """Columns are taken in two dimensions, so that TVM computes all and not only what exists.

    It shrinks a stage to what its reader reads, and a row of 13 is read up to 13; of
    ``[13 // 8, 13 % 8]`` all 2 x 8 are.
    """
    return max(1, pool.columns // 2) if pool.out_width <= _NARROW else _NARROW


def _rows(data: te.Tensor, pool: _Pool) -> te.Tensor:
    batch, channels, _, width = pool.extents

    def value(n: Any, c: Any, y: Any, x: Any) -> Any:
        values = [
            _row_or_identity(data, pool, (n, c, x), y * pool.stride[0] + k * pool.dilation[0])
            for k in range(pool.window[0])
        ]
        joined = pool.join(values)
        if pool.largest:
            return joined
        return joined * _share(y, 0, pool)

    return te.compute(
        (batch, channels, pool.out_height, width), value, name="rows", attrs=role(ROWS)
    )


def _row_or_identity(data: te.Tensor, pool: _Pool, at: tuple[Any, Any, Any], row: Any) -> Any:
    n, c, x = at
    height, y = pool.extents[2], row - pool.top
    last = (pool.out_height - 1) * pool.stride[0] + (pool.window[0] - 1) * pool.dilation[0]
    if not pool.top and last < height:
        return data[n, c, y, x]
    value = data[n, c, tirx.Max(tirx.Min(y, height - 1), 0), x]
    # A clamped row is in the window anyway (`_has_empty_window`), so a maximum may see it twice.
    return value if pool.largest else mask_value(value, tirx.all(y >= 0, y < height))


def _streams(rows: te.Tensor, pool: _Pool) -> Callable[..., Any]:
    batch, channels, _, width = pool.extents
    part = _part(pool)

    def value(n: Any, c: Any, y: Any, k: Any, outer: Any, inner: Any) -> Any:
        x = (outer * part + inner) * pool.stride[1] + k * pool.dilation[1] - pool.left
        return tirx.if_then_else(tirx.all(x >= 0, x < width), rows[n, c, y, x], pool.identity)

    streams = te.compute(
        (batch, channels, pool.out_height, pool.window[1], pool.columns // part, part),
        value,
        name="streams",
        attrs=role(STREAMS),
    )
    return lambda n, c, y, k, outer, inner: streams[n, c, y, k, outer, inner]


def _padded_row(rows: te.Tensor, pool: _Pool) -> Callable[..., Any]:
    batch, channels, _, width = pool.extents
    (_, stride), left = pool.stride, pool.left
    columns = (pool.out_width - 1) * stride + (pool.window[1] - 1) * pool.dilation[1] + 1

    def value(n: Any, c: Any, y: Any, x: Any) -> Any:
        inside = tirx.all(x >= left, x < width + left)
        return tirx.if_then_else(inside, rows[n, c, y, x - left], pool.identity)

    padded = rows
    if left or columns > width:
        padded = te.compute(
            (batch, channels, pool.out_height, columns), value, name="pad", attrs=role(STREAMS)
        )
    return lambda n, c, y, k, x: padded[n, c, y, x * stride + k * pool.dilation[1]]


def _mean(value: Any, x: Any, pool: _Pool) -> Any:
    return value if pool.largest else value * _share(x, 1, pool)


def _share(at: Any, axis: int, pool: _Pool) -> Any:
    """One over the number of rows (axis 0) or columns (axis 1) that count in a window."""
    size, stride = pool.window[axis], pool.stride[axis]
    before, extent = (pool.top, pool.left)[axis], pool.extents[2 + axis]
    last = ((pool.out_height, pool.out_width)[axis] - 1) * stride - before
    if pool.padding_counts or (not before and last + (size - 1) * pool.dilation[axis] < extent):
        return tirx.const(1.0 / size, "float32")
    # Dilation is one where there is padding (`_has_empty_window`).
    first = at * stride - before
    count = tirx.Min(first + size, extent) - tirx.Max(first, 0)
    return tirx.const(1.0, "float32") / tirx.Cast("float32", count)
