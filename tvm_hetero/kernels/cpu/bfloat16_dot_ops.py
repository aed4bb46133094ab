"""Words of bfloat16 as operations of TIR, which TVM's own passes vectorise.

    word = tvm_hetero.bfloat16_pair(low, high)           two numbers of float32, rounded
    sum  = tvm_hetero.bfloat16_dot(sum, word, word)      float32: sum + low low' + high high'

A kernel before any schedule has the first one, and for the second one the arithmetic itself
(`bfloat16_words.plain_dot`): every target can compute that. A kernel that is scheduled for a CPU
whose vector unit multiplies pairs (`vector_unit.VectorUnit.dots`) calls functions of LLVM's instead
(`llvm_functions`), and only such a one does. They are known to TVM as soon as this file is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call, Op

from tvm_hetero.kernels.cpu.bfloat16_words import plain_dot, plain_pair
from tvm_hetero.kernels.cpu.llvm_functions import (
    PAIRING,
    dot_bfloat16,
    dot_text,
    pair_bfloat16,
    with_functions,
)
from tvm_hetero.kernels.cpu.vector_unit import VectorUnit
from tvm_hetero.kernels.cpu.word_sums import register_operation, replace_sums
from tvm_hetero.kernels.tir.block_roles import BFLOAT16_DOT

Expr = Any

LANES = 16
_PAIR, _DOT = "tvm_hetero.bfloat16_pair", "tvm_hetero.bfloat16_dot"


def pair(low: Expr, high: Expr) -> Expr:
    """The word of two numbers of float32 (int32)."""
    return Call(Op.get(_PAIR), [low, high], ret_ty="int32")


def multiplies_pairs(unit: VectorUnit) -> bool:
    """Whether a vector unit has an instruction for pairs of bfloat16."""
    return bool(unit.dots) and unit.lanes == LANES


def use_bfloat16_dots(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """A scheduled kernel whose words are made and multiplied by the unit's instructions.

    As it is for a unit without them.
    """
    if not multiplies_pairs(unit):
        return func
    summed = replace_sums(func, BFLOAT16_DOT, _DOT, "float32")
    return func if summed.same_as(func) else _with_pairs(summed, [dot_text(unit.dots)])


def use_bfloat16_pairs(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A scheduled kernel whose words are made by instructions for bfloat16, and multiplied by
    others than vectors'.

    As it is where it makes no words.
    """
    found: list[Call] = []

    def note(call: Call) -> None:
        if call.op.same_as(Op.get(_PAIR)):
            found.append(call)

    tvm_ffi.structural_walk(func.body, (Call, note))
    return _with_pairs(func, []) if found else func


def _with_pairs(func: tirx.PrimFunc, texts: Sequence[str]) -> tirx.PrimFunc:
    """A kernel that calls functions for its words, and whose text they are in."""

    def quicker(call: Call) -> Expr:
        return pair_bfloat16(*call.args) if call.op.same_as(Op.get(_PAIR)) else call

    root = tvm_ffi.structural_map(func.body, (Call, quicker)).block
    body = with_functions([PAIRING, *texts], [root.body])
    around = s_tir.SBlock(
        list(root.iter_vars), list(root.reads), list(root.writes), root.name_hint, body,
        alloc_buffers=list(root.alloc_buffers), annotations=dict(root.annotations),
    )  # fmt: skip
    return func.with_body(s_tir.SBlockRealize([], tirx.const(True, "bool"), around))


def _lower_pair(call: Call) -> Expr:
    low, high = call.args
    return plain_pair(low, high, _lanes(call))


def _lower_dot(call: Call) -> Expr:
    """The instruction, or for vectors of other lengths the arithmetic."""
    total, one, other = call.args
    lanes = _lanes(call)
    if lanes != LANES:
        return total + plain_dot(one, other, lanes)
    pairs = [tirx.reinterpret(f"float32x{LANES}", word) for word in (one, other)]
    return dot_bfloat16(total, *pairs)


def _lanes(call: Call) -> int:
    return int(tvm_ffi.dtype(str(call.ty.dtype)).lanes)


register_operation(_PAIR, _lower_pair)
register_operation(_DOT, _lower_dot)
