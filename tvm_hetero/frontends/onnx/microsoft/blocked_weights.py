"""Weights of a few bits in blocks, each with its scale and zero point.

``MatMulNBits`` packs them along K, the first in the lowest bits of a byte.  They are made numbers
here, once: the product is then one of float32, as ONNX Runtime's is where the left side may not be
quantized (``accuracy_level`` below 4; at 4 it *may* be, which only costs accuracy).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import ADVICE, contributed
from tvm_hetero.frontends.onnx.model.axes import checked_axis

_Array = np.ndarray[Any, Any]

# Values of the codes of MatMulBnb4: normal float, and float of 2 exponent bits and 1 of mantissa.
_NORMAL = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
_FLOAT4 = (0.0, 0.0052083334, 0.6666667, 1.0, 0.33333334, 0.5, 0.16666667, 0.25)


@contributed(
    "MatMulNBits",
    operands=6,
    attributes=("K", "N", "bits", "block_size"),
    only={"weight_prepacked": 0},
    indifferent=("accuracy_level",),
)
def rewrite_mat_mul_n_bits(r: Rewriting) -> None:
    """Multiply by the weights as numbers."""
    k, n, bits, block = (
        int(r.attribute(name, default))
        for name, default in (("K", 0), ("N", 0), ("bits", 4), ("block_size", 0))
    )
    if bits not in (2, 4, 8) or block < 16:
        r.refuse(f"has weights of {bits} bits in blocks of {block}; 2, 4 or 8 bits are taken")
    packed = r.constant_of(1, "weights")
    blocks = -(-k // block)
    codes = unpack(packed.reshape(n, -1), bits, blocks * block)[:, :k]
    if r.operand(4):
        r.refuse(f"has a group index (g_idx), which is deprecated and not taken. {ADVICE}")
    group = np.arange(k) // block
    scale = r.constant_of(2, "scales").astype(np.float32).reshape(n, blocks)
    zero = _zeros(r, (n, blocks), bits)
    weights = (codes.astype(np.float32) - zero[:, group]) * scale[:, group]
    dtype = r.dtype(r.inputs[0])
    right = r.constant(np.ascontiguousarray(weights.T), dtype)
    if not r.operand(5):
        r.add("MatMul", [r.inputs[0], right], r.outputs)
        return
    r.add("Add", [r.add("MatMul", [r.inputs[0], right]), r.operand(5)], r.outputs)


def unpack(packed: _Array, bits: int, count: int) -> _Array:
    """Return the first `count` codes of each row, of which each byte holds several."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (packed.view(np.uint8)[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return codes.reshape(*packed.shape[:-1], -1)[..., :count]


def _zeros(r: Rewriting, shape: tuple[int, int], bits: int) -> _Array:
    """Return zero points as numbers; packed as the weights are, or not."""
    if not r.operand(3):
        return np.full(shape, 1 << (bits - 1), np.float32)
    given = r.constant_of(3, "zero points")
    if given.dtype != np.uint8:
        return given.astype(np.float32).reshape(shape)
    return unpack(given.reshape(shape[0], -1), bits, shape[1]).astype(np.float32)


@contributed(
    "GatherBlockQuantized",
    operands=4,
    attributes=("bits", "block_size", "gather_axis", "quantize_axis"),
)
def rewrite_gather_block_quantized(r: Rewriting) -> None:
    """Look up rows of the table as numbers."""
    bits, block = int(r.attribute("bits", 4)), int(r.attribute("block_size", 128))
    data, scale = r.constant_of(0, "table"), r.constant_of(2, "scales")
    is_packed = r.element_type(r.inputs[0]) == TensorProto.UINT8 and bits < 8
    codes = unpack(data, bits, data.shape[-1] * 8 // bits) if is_packed else data
    axis = checked_axis(r.refuse, int(r.attribute("quantize_axis", 1)), codes.ndim)
    group = np.arange(codes.shape[axis]) // block
    zero = _table_zeros(r, scale.shape, bits, is_packed=is_packed)
    numbers = codes.astype(np.float32) - np.take(zero, group, axis)
    table = numbers * np.take(scale.astype(np.float32), group, axis)
    name = r.constant(table, scale.dtype)
    r.add("Gather", [name, r.inputs[1]], r.outputs, axis=int(r.attribute("gather_axis", 0)))


def _table_zeros(r: Rewriting, shape: tuple[int, ...], bits: int, *, is_packed: bool) -> _Array:
    if not r.operand(3):
        is_unsigned = r.element_type(r.inputs[0]) == TensorProto.UINT8
        return np.full(shape, 1 << (bits - 1) if is_unsigned else 0, np.float32)
    given = r.constant_of(3, "zero points")
    if is_packed:
        given = unpack(given, bits, shape[-1])
    return given.astype(np.float32).reshape(shape)


@contributed(
    "MatMulBnb4",
    operands=3,
    attributes=("K", "N", "block_size", "quant_type"),
    only={"training_mode": 0, "transB": 1},
)
def rewrite_mat_mul_bnb4(r: Rewriting) -> None:
    """Multiply by the weights as numbers: a value by its code, times the block's largest."""
    k, n, block = (int(r.attribute(name, 0)) for name in ("K", "N", "block_size"))
    packed = r.constant_of(1, "weights").ravel()
    largest = r.constant_of(2, "scales").astype(np.float32)
    kind = int(r.attribute("quant_type", 0))
    if kind not in (0, 1) or block <= 0:
        r.refuse(f"has quant_type {kind} in blocks of {block}; 0 (FP4) and 1 (NF4) are taken")
    positive = np.array(_FLOAT4, np.float32)
    table = np.array(_NORMAL, np.float32) if kind else np.concatenate([positive, -positive])
    # The first of two codes lies in the high bits.
    codes = np.stack([packed >> 4, packed & 15], axis=-1).ravel()[: n * k]
    weights = table[codes] * largest[np.arange(n * k) // block]
    right = r.constant(np.ascontiguousarray(weights.reshape(n, k).T), r.dtype(r.inputs[0]))
    r.add("MatMul", [r.inputs[0], right], r.outputs)
