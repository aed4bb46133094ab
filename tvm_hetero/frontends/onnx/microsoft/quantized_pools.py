"""Average pooling of codes, with the channels first or last."""

from __future__ import annotations

import math

import numpy as np

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.convolutions import (
    channels_first_order,
    channels_last_order,
)
from tvm_hetero.frontends.onnx.microsoft.forms import contributed
from tvm_hetero.frontends.onnx.quantized.arithmetic import (
    add_codes,
    add_dequantized,
    add_quantized,
    centred,
    scalar_quantizer,
)

_WINDOW = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


@contributed("QLinearGlobalAveragePool", operands=5, attributes=("channels_last",))
def rewrite_q_linear_global_average_pool(r: Rewriting) -> None:
    """Add codes, which is exact, and multiply by all factors at once."""
    x = scalar_quantizer(r, 1, 2, r.element_type(r.inputs[0]))
    y = scalar_quantizer(r, 3, 4, x.code)
    dims = r.dims(r.inputs[0])
    first = 1 if r.attribute("channels_last", 0) else 2
    axes = list(range(first, first + len(dims) - 2))
    total = r.add("ReduceSum", [centred(r, r.inputs[0], x.zero), r.constant(axes, np.int64)])
    count = r.constant(math.prod(dims[axis] for axis in axes), np.float32)
    factor = r.add("Div", [x.scale, r.add("Mul", [y.scale, count])])
    add_codes(r, r.exact(r.add("Mul", [total, factor])), y, r.outputs)


@contributed("QLinearAveragePool", operands=5, attributes=(*_WINDOW, "channels_last"))
def rewrite_q_linear_average_pool(r: Rewriting) -> None:
    """Pool numbers."""
    x = scalar_quantizer(r, 1, 2, r.element_type(r.inputs[0]))
    y = scalar_quantizer(r, 3, 4, x.code)
    numbers = add_dequantized(r, r.inputs[0], x)
    last = bool(r.attribute("channels_last", 0))
    rank = r.rank(r.inputs[0])
    if last:
        numbers = r.add("Transpose", [numbers], perm=channels_first_order(rank))
    pooled = r.add("AveragePool", [numbers], **{name: r.attribute(name) for name in _WINDOW})
    if last:
        pooled = r.add("Transpose", [pooled], perm=channels_last_order(rank))
    add_quantized(r, pooled, y, r.outputs)
