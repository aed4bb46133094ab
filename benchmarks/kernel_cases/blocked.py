"""A convolution on activations in blocks of 16 channels, for the comparison of layouts alone.

    out[n, o // 16, y, x, o % 16] += data[n, c // 16, y s + kh, x s + kw, c % 16]
                                     * weight[o // B, c // 16, kh, kw, c % 16, o % B]

Lanes are always output channels; a tile is V vectors of them by T points, as in our rule. Rows of
1x1 convolutions with stride 1 are joined. Nothing is gathered for strides, and what is stored is
whole vectors; padding is a stage of its own, as in our rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax, s_tir, te, tirx

from tvm_hetero.kernels.packing import pack_conv2d

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


def _in_block(convolution: Convolution) -> int:
    """Channels in a block of the input; those of an image (3) are one block."""
    return min(_LANES, convolution.channels)


def to_blocks(x: NDArray[Any], convolution: Convolution) -> NDArray[Any]:
    n, c, h, w = x.shape
    block = _in_block(convolution)
    return np.ascontiguousarray(x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))


def to_planes(y: NDArray[Any], expected: NDArray[Any]) -> NDArray[Any]:
    n, c, h, w = expected.shape
    planes = y.reshape(n, -1, h, w, _LANES).transpose(0, 1, 4, 2, 3)
    return planes.reshape(n, -1, h, w)[:, :c]


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


def blocked_conv2d(convolution: Convolution, weight: NDArray[Any], tile: Tile) -> tvm.IRModule:
    """A module whose `main` is the convolution on blocks."""
    c = _joined(convolution)
    padded = np.zeros((_blocks(c.out_channels) * _LANES, *weight.shape[1:]), np.float32)
    padded[: c.out_channels] = weight
    block = _in_block(c)
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
            y = bb.emit(
                bb.call_te(
                    lambda d, w: _compute(d, w, c, tile),
                    row,
                    relax.const(packed),
                    primfunc_name_hint="blocked",
                )
            )
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    mod = relax.transform.RewriteDataflowReshape()(bb.get())
    functions = {
        gv: _schedule(f, tile) if gv.name_hint == "blocked" else f
        for gv, f in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def _compute(data: te.Tensor, weight: te.Tensor, c: Convolution, tile: Tile) -> te.Tensor:
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
    v = tile.vectors
    return te.compute(
        (1, _blocks(c.out_channels), rows, columns, _LANES),
        lambda b, q, y, x, i: acc[b, q // v, y, x, (q % v) * _LANES + i],
        name="store",
    )


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
        pad = sch.get_sblock("pad")
        sch.vectorize(sch.get_loops(pad)[-1])
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
    sch.vectorize(sch.get_loops(store)[-1])
    sch.set_scope(acc, 0, "local")
    return sch.mod["main"].with_attr("tirx.is_scheduled", True)
