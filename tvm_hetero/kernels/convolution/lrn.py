"""The window over channels of local response normalisation, as an element-wise kernel.

The ONNX importer writes LRN as ``x / (bias + scale * avg_pool3d(x * x)) ** beta`` with a window of
[n, 1, 1]. As pooling these are three kernels that go through memory; as a sum of n elements,
written out, all of it is one kernel: FuseOps takes in what comes before and after, and a row of
the image is vectors. Channels beyond the first and last are clamped and masked, so nothing
is padded. x * x is computed n times; it costs nothing beside the loads. 192 x 55 x 55 on one core
of an AMD EPYC (znver5): 173 us, most of it square roots; ONNX Runtime 10970 (`python -m
benchmarks.kernels --family lrn`, `benchmarks/results/kernels.json`).
"""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.tir.blocks import mask_value

_INJECTIVE = 2
_LARGEST = 16


def channel_window(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    """``avg_pool3d`` over depth alone as a sum written out, None for any other."""
    call = bb.normalize(call)
    attrs, data = call.attrs, call.args[0].ty
    size, *plane = (int(extent) for extent in attrs.pool_size)
    before, *around, _after, _bottom, _right = (int(p) for p in attrs.padding)
    fits = (
        str(data.dtype) == "float32"
        and attrs.layout == "NCDHW"
        and str(attrs.out_layout) in ("", "NCDHW")
        and plane == [1, 1]
        and not any(around)
        and all(int(s) == 1 for s in (*attrs.strides, *attrs.dilation))
        and bool(attrs.count_include_pad)
        and 1 < size <= _LARGEST
        and all(isinstance(extent, int | tirx.IntImm) for extent in data.shape or ())
        and _same(data.shape, call.ty.shape)
    )
    if not fits:
        return None
    return bb.call_te(
        lambda x: _compute(x, size, before),
        call.args[0],
        primfunc_name_hint="lrn_window",
        primfunc_attrs={"op_pattern": _INJECTIVE},
    )


def _same(one: Any, other: Any) -> bool:
    return [int(e) for e in one] == [int(e) for e in other]


def _compute(data: te.Tensor, size: int, before: int) -> te.Tensor:
    depth = int(data.shape[2])
    share = tirx.const(1.0 / size, data.dtype)

    def value(n: Any, c: Any, d: Any, y: Any, x: Any) -> Any:
        total = None
        for k in range(size):
            at = d + (k - before)
            read = data[n, c, tirx.Max(tirx.Min(at, depth - 1), 0), y, x]
            term = mask_value(read, tirx.all(at >= 0, at < depth))
            total = term if total is None else total + term
        return total * share

    return te.compute([int(extent) for extent in data.shape], value, name="lrn_window")
