"""Matrix products of 16-bit numbers, as torch computes them: summed in float32, rounded once.

TVM's importer has every product come out as float32, whatever goes into it, and then refuses the
first operation that adds a number of 16 bits to it. Here a product of two tensors of 16 bits is of
their type again, its bias added before it is rounded (`torch.addmm` and its relations do that
too). All other products are left to TVM.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

_NARROW = ("bfloat16", "float16")
Converter = Callable[[Any, Any], relax.Expr]


def product_converters() -> dict[str, Converter]:
    """For each operator of torch's that is a product what converts a node of it."""
    plain = ("mm.default", "bmm.default", "matmul.default")
    added = {"addmm.default": "_addmm", "baddbmm.default": "_baddbmm"}
    return {
        **dict.fromkeys(plain, _plain),
        **{name: _added(fallback) for name, fallback in added.items()},
        "linear.default": _linear,
    }


def _plain(node: Any, importer: Any) -> relax.Expr:
    a, b = importer.retrieve_args(node)[:2]
    if not _narrow(a, b):
        return importer.block_builder.emit(relax.op.matmul(a, b, out_dtype="float32"))
    return _rounded(importer.block_builder, _wide(importer.block_builder, a, b), a)


def _added(fallback: str) -> Converter:
    """``beta * c + alpha * (a @ b)``."""

    def convert(node: Any, importer: Any) -> relax.Expr:
        bb, (c, a, b) = importer.block_builder, importer.retrieve_args(node)[:3]
        if not _narrow(a, b):
            return getattr(importer, fallback)(node)
        scaled = _times(bb, _wide(bb, a, b), node.kwargs.get("alpha", 1))
        addend = bb.emit(relax.op.astype(c, "float32"))
        total = relax.op.add(scaled, _times(bb, addend, node.kwargs.get("beta", 1)))
        return _rounded(bb, bb.emit(total), a)

    return convert


def _linear(node: Any, importer: Any) -> relax.Expr:
    """``x @ weight^T + bias``."""
    bb, args = importer.block_builder, importer.retrieve_args(node)
    x, weight = args[:2]
    bias = args[2] if len(args) > 2 else None
    if not _narrow(x, weight):
        return importer._linear(node)
    total = _wide(bb, x, bb.emit(relax.op.permute_dims(weight)))
    if bias is not None:
        total = bb.emit(relax.op.add(total, bb.emit(relax.op.astype(bias, "float32"))))
    return _rounded(bb, total, x)


def _narrow(a: relax.Expr, b: relax.Expr) -> bool:
    return {str(a.ty.dtype), str(b.ty.dtype)} <= set(_NARROW)


def _wide(bb: relax.BlockBuilder, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    return bb.emit(relax.op.matmul(a, b, out_dtype="float32"))


def _times(bb: relax.BlockBuilder, x: relax.Expr, factor: float) -> relax.Expr:
    return x if factor == 1 else bb.emit(relax.op.multiply(x, relax.const(factor, "float32")))


def _rounded(bb: relax.BlockBuilder, total: relax.Expr, like: relax.Expr) -> relax.Expr:
    return bb.emit(relax.op.astype(total, str(like.ty.dtype)))
