"""Which of our rules builds the kernel of a high-level operator.

`LowerToTasks` asks `RULES` for the name of each operator that it meets. A rule gets the call with
its arguments rewritten already and answers with an expression that takes the call's place, or
with None where it does not fit: then TVM's own legalisation builds the kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from tvm_hetero.kernels import strength_reduction
from tvm_hetero.kernels.convolution.conv2d import emit_packed_conv2d
from tvm_hetero.kernels.convolution.conv_codes import convolve_codes
from tvm_hetero.kernels.convolution.dilated import in_phases
from tvm_hetero.kernels.convolution.half_precision import widen_convolution
from tvm_hetero.kernels.convolution.lrn import channel_window
from tvm_hetero.kernels.convolution.transposed import as_convolution
from tvm_hetero.kernels.convolution.volumes import as_conv2d
from tvm_hetero.kernels.cpu.legalization import Legalization as Legalization
from tvm_hetero.kernels.gather_scatter import gather, scatter
from tvm_hetero.kernels.matmul.code_products import multiply_codes
from tvm_hetero.kernels.matmul.matmul import matmul
from tvm_hetero.kernels.rowwise.extremes import make_extreme, make_place, make_relu
from tvm_hetero.kernels.rowwise.pool import make_pool2d
from tvm_hetero.kernels.rowwise.softmax import make_softmax

Rule = Callable[[relax.Call, Legalization], "relax.Expr | None"]


def _convolution(call: relax.Call, use: Legalization) -> relax.Expr | None:
    if str(call.ty.dtype) == "int32":
        return convolve_codes(call, use)
    wide = widen_convolution(use.builder, call, use.known)
    if wide is None:
        return _packed_convolution(call, use)
    packed = _packed_convolution(wide, use)
    found = use.builder.emit(wide if packed is None else packed)
    return relax.op.astype(found, call.ty.dtype)


def _packed_convolution(call: relax.Call, use: Legalization) -> relax.Expr | None:
    weight = use.known(call.args[1])
    if weight is None:
        return None
    # Sums of whole numbers are exact as they are written; by Winograd's tiles they were off by 5.
    plain = use.plain_sums or bool(np.array_equal(weight, np.rint(weight)))
    phases = None if plain else in_phases(use.builder, call, weight, use.units)
    if phases is not None:
        done = emit_packed_conv2d(use.builder, phases.call, weight, use.units)
        return None if done is None else phases.in_order(use.builder, use.builder.emit(done))
    return emit_packed_conv2d(use.builder, call, weight, use.units, plain_sums=plain)


def _transposed_convolution(call: relax.Call, use: Legalization) -> relax.Expr | None:
    weight = use.known(call.args[1])
    phases = None if weight is None else as_convolution(use.builder, call, weight)
    if phases is None:
        return None
    parts = _convolution(phases.call, use)
    return None if parts is None else phases.in_order(use.builder, use.builder.emit(parts))


def _conv3d(call: relax.Call, use: Legalization) -> relax.Expr | None:
    weight = use.known(call.args[1])
    images = None if weight is None else as_conv2d(use.builder, call, weight)
    if images is None:
        return None
    done = _convolution(images.call, use)
    return None if done is None else images.in_order(use.builder, use.builder.emit(done))


def _matmul(call: relax.Call, use: Legalization) -> relax.Expr | None:
    of_codes = multiply_codes(call, use) if str(call.ty.dtype) == "int32" else None
    if of_codes is not None:
        return of_codes
    # A left side that was computed at compile time is only a name so far.
    args = [use.emitted(call.args[0]), call.args[1]]
    call = use.builder.normalize(relax.Call(call.op, args, call.attrs, call.ty_args))
    return matmul(use.builder, call, use.known, use.units)


def _power(call: relax.Call, use: Legalization) -> relax.Expr | None:
    narrow = _in_float32(call, use)
    if narrow is not None:
        return narrow
    exponent = use.known(call.args[1])
    return strength_reduction.power(use.builder, use.builder.normalize(call), exponent)


def _batch_norm(call: relax.Call, use: Legalization) -> relax.Expr | None:
    return strength_reduction.batch_norm(use.builder, call, use.known)


def _in_float32(call: relax.Call, use: Legalization) -> relax.Expr | None:
    return strength_reduction.in_float32(use.builder, call, use.known)


def _pool2d(call: relax.Call, use: Legalization) -> relax.Expr | None:
    return make_pool2d(use.builder, call)


def _avg_pool3d(call: relax.Call, use: Legalization) -> relax.Expr | None:
    return channel_window(use.builder, call)


def _softmax(call: relax.Call, use: Legalization) -> relax.Expr | None:
    return make_softmax(use.builder, call)


def _extreme(call: relax.Call, use: Legalization) -> relax.Expr | None:
    return make_extreme(use.builder, call, in_parts=not use.on_gpus)


def _place(call: relax.Call, use: Legalization) -> relax.Expr | None:
    return make_place(use.builder, call)


def _relu(call: relax.Call, use: Legalization) -> relax.Expr | None:
    return make_relu(use.builder, call)


def _indexed(kernel: Callable[[relax.Call, Legalization], relax.Expr | None]) -> Rule:
    return lambda call, use: kernel(use.builder.normalize(call), use)


RULES: dict[str, Rule] = {
    "relax.nn.conv2d": _convolution,
    "relax.nn.conv1d": _convolution,
    "relax.nn.conv3d": _conv3d,
    "relax.nn.conv2d_transpose": _transposed_convolution,
    "relax.nn.conv1d_transpose": _transposed_convolution,
    "relax.matmul": _matmul,
    "relax.power": _power,
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.layer_norm": _in_float32,
    "relax.nn.instance_norm": _in_float32,
    "relax.nn.max_pool2d": _pool2d,
    "relax.nn.avg_pool2d": _pool2d,
    "relax.nn.avg_pool3d": _avg_pool3d,
    "relax.nn.relu": _relu,
    "relax.max": _extreme,
    "relax.min": _extreme,
    "relax.argmax": _place,
    "relax.argmin": _place,
    "relax.nn.softmax": _softmax,
    "relax.nn.log_softmax": _softmax,
    "relax.take": _indexed(gather.take),
    "relax.gather_elements": _indexed(gather.gather_elements),
    "relax.gather_nd": _indexed(gather.gather_nd),
    "relax.scatter_elements": _indexed(scatter.scatter_elements),
    "relax.scatter_nd": _indexed(scatter.scatter_nd),
}
