"""A convolution whose lanes are always output channels, for the comparison of layouts alone.

Activations stand in blocks of ``B`` channels; 16 is what blocked networks have, 1 is NCHW:

    out[n, o // B, y, x, o % B] += data[n, c // B, y s + kh, x s + kw, c % B]
                                   * weight[o // L, c // B, kh, kw, c % B, o % L]

A tile is V vectors of channels (``L = 16 V``) by T points, values of the data are broadcast, and
so nothing is gathered for strides. Rows of 1x1 convolutions with stride 1 are joined. Blocks are
stored in whole vectors, planes value by value; padding is a stage of its own, as in our rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax, s_tir, te, tirx

from tvm_hetero.kernels.convolution.packing import pack_conv2d

from .convolutions import Convolution

_LANES = 16
_TRIED = 3
_REGISTERS, _LATENCY = 32, 4.5  # of AVX-512: accumulators, weights and one more must fit
_MOST_VECTORS = 6


@dataclass(frozen=True)
class Tile:
    """Vectors of output channels by points of a row, which is padded to ``width`` points."""

    vectors: int
    points: int
    width: int


def _blocks(channels: int) -> int:
    return -(-channels // _LANES)


def to_blocks(x: NDArray[Any], block: int) -> NDArray[Any]:
    """NCHW in blocks of so many channels; those of an image (3) are one block."""
    n, c, h, w = x.shape
    block = min(block, c)
    return np.ascontiguousarray(x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))


def to_planes(y: NDArray[Any], channels: int) -> NDArray[Any]:
    """Back to NCHW, without the channels that fill the last block."""
    n, _, h, w, _ = y.shape
    return y.transpose(0, 1, 4, 2, 3).reshape(n, -1, h, w)[:, :channels]


def tiles_of(convolution: Convolution) -> list[Tile]:
    """For each number of vectors the cheapest tile that fits into the registers; `_TRIED`."""
    width = _joined(convolution).output[1]
    blocks = _blocks(convolution.out_channels)
    cheapest = [
        min(
            (
                Tile(v, t, padded)
                for padded in range(width, width + 4)
                for t in range(1, _REGISTERS)
                if padded % t == 0 and v * t + v + 1 <= _REGISTERS
            ),
            key=lambda tile: (_cycles(tile), tile.width, -tile.points),
        )
        for v in range(1, _MOST_VECTORS + 1)
        if blocks % v == 0
    ]
    return sorted(cheapest, key=_cycles)[:_TRIED]


def _cycles(tile: Tile) -> float:
    """Of a row, for each vector of output channels and step of the reduction."""
    step = max(tile.vectors * tile.points / 2, _LATENCY) + 0.25 * tile.vectors
    return tile.width * step / (tile.vectors * tile.points)


def _joined(convolution: Convolution) -> Convolution:
    """A 1x1 convolution with stride 1 as one row of points."""
    c = convolution
    if (c.kernel, c.strides, c.pads) != ((1, 1), (1, 1), (0, 0, 0, 0)):
        return c
    return replace(c, height=1, width=c.height * c.width)


def blocked_conv2d(
    convolution: Convolution, weight: NDArray[Any], tile: Tile, block: int
) -> tvm.IRModule:
    """A module whose `main` is the convolution on blocks of so many channels."""
    c = _joined(convolution)
    padded = np.zeros((_blocks(c.out_channels) * _LANES, *weight.shape[1:]), np.float32)
    padded[: c.out_channels] = weight
    out_block, block = block, min(block, c.channels)
    packed = pack_conv2d(padded, 1, tile.vectors * _LANES)  # [o, c, kh, kw, i]
    outer, channels, kh, kw, lanes = packed.shape
    packed = packed.reshape(outer, channels // block, block, kh, kw, lanes)
    packed = np.ascontiguousarray(packed.transpose(0, 1, 3, 4, 2, 5))
    bb = relax.BlockBuilder()
    shape = (1, channels // block, convolution.height, convolution.width, block)
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            row = bb.emit(relax.op.reshape(x, (1, channels // block, c.height, c.width, block)))
            y = bb.call_te(
                lambda d, w: _compute(d, w, c, tile, out_block),
                row,
                relax.const(packed),
                primfunc_name_hint="blocked",
            )
            shape = (1, -1, *convolution.output, out_block)
            out = bb.emit_output(relax.op.reshape(bb.emit(y), shape))
        bb.emit_func_output(out)
    mod = relax.transform.RewriteDataflowReshape()(bb.get())
    functions = {
        gv: _schedule(f, tile) if gv.name_hint == "blocked" else f
        for gv, f in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def _compute(
    data: te.Tensor, weight: te.Tensor, c: Convolution, tile: Tile, block: int
) -> te.Tensor:
    (sy, sx), (kh_extent, kw_extent) = c.strides, c.kernel
    rows, columns = c.output
    source = _padded(data, c, (rows - 1) * sy + kh_extent, (tile.width - 1) * sx + kw_extent)
    ic = te.reduce_axis((0, int(weight.shape[1])), "ic")
    ci = te.reduce_axis((0, int(weight.shape[4])), "ci")
    kh, kw = te.reduce_axis((0, kh_extent), "kh"), te.reduce_axis((0, kw_extent), "kw")
    acc = te.compute(
        (1, int(weight.shape[0]), rows, tile.width, int(weight.shape[5])),
        lambda b, o, y, x, i: te.sum(
            source[b, ic, y * sy + kh, x * sx + kw, ci] * weight[o, ic, kh, kw, ci, i],
            axis=[ic, kh, kw, ci],
        ),
        name="accumulate",
    )
    lanes = tile.vectors * _LANES

    def stored(b: Any, q: Any, y: Any, x: Any, i: Any) -> Any:
        channel = q * block + i
        return acc[b, channel // lanes, y, x, channel % lanes]

    # Channels that fill the last vector are stored too: TVM cannot attach a shorter store.
    blocks = _blocks(c.out_channels) * _LANES // block
    return te.compute((1, blocks, rows, columns, block), stored, name="store")


def _padded(data: te.Tensor, c: Convolution, rows: int, columns: int) -> te.Tensor:
    top, left = c.pads[:2]
    if not (top or left) and rows <= c.height and columns <= c.width:
        return data
    _, blocks, height, width, block = (int(extent) for extent in data.shape)
    zero = tirx.const(0, "float32")
    return te.compute(
        (1, blocks, rows, columns, block),
        lambda b, q, y, x, i: tirx.if_then_else(
            tirx.all(y >= top, y < top + height, x >= left, x < left + width),
            data[b, q, y - top, x - left, i],
            zero,
        ),
        name="pad",
    )


def _schedule(func: tirx.PrimFunc, tile: Tile) -> tirx.PrimFunc:
    sch = s_tir.Schedule(tvm.IRModule({"main": func}))
    names = [str(sch.get(b).name_hint) for b in sch.get_child_blocks(sch.get_sblock("root"))]
    if "pad" in names:
        _schedule_pad(sch, sch.get_sblock("pad"))
    acc, store = sch.get_sblock("accumulate"), sch.get_sblock("store")
    b, o, y, x, i, ic, kh, kw, ci = sch.get_loops(acc)
    xo, xs = sch.split(x, [None, tile.points])
    v, lanes = sch.split(i, [None, _LANES])
    sch.reorder(b, o, y, xo, ic, kh, kw, ci, xs, v, lanes)
    sch.vectorize(lanes)
    sch.unroll(v)
    sch.unroll(xs)
    sch.decompose_reduction(acc, ic)
    sch.reverse_compute_at(store, xo)
    innermost = sch.get_loops(store)[-1]
    if int(sch.get(innermost).extent) == _LANES:
        sch.vectorize(innermost)
    sch.set_scope(acc, 0, "local")
    return sch.mod["main"].with_attr("tirx.is_scheduled", True)


def _schedule_pad(sch: s_tir.Schedule, pad: Any) -> None:
    *_, innermost = loops = sch.get_loops(pad)
    if int(sch.get(innermost).extent) > 1:
        sch.vectorize(innermost)
    else:
        sch.decompose_padding(pad, loops[2])
