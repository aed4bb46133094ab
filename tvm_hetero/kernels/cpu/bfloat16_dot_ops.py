"""Words of bfloat16 as operations of TIR, which TVM's own passes vectorise.

    word = tvm_hetero.bfloat16_pair(low, high)           two numbers of float32, rounded
    sum  = tvm_hetero.bfloat16_dot(sum, word, word)      float32: sum + low low' + high high'
    bits = tvm_hetero.bfloat16_bits(value)               a number of float32, rounded (uint16)

A kernel before any schedule has the first and the last one, and for the second one the arithmetic
itself (`bfloat16_words.plain_dot`): every target can compute that. A kernel that is scheduled for a
CPU whose vector unit multiplies pairs (`vector_unit.VectorUnit.dots`) calls functions of LLVM's
instead (`llvm_functions`), and only such a one does. They are known to TVM as soon as this file is
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call, Op

from tvm_hetero.kernels.cpu.bfloat16_words import plain_bits, plain_dot, plain_pair
from tvm_hetero.kernels.cpu.llvm_functions import (
    PAIRING,
    dot_bfloat16,
    dot_text,
    pair_bfloat16,
    round_bfloat16,
    round_text,
    with_functions,
)
from tvm_hetero.kernels.cpu.vector_unit import VectorUnit
from tvm_hetero.kernels.cpu.word_sums import register_operation, replace_sums
from tvm_hetero.kernels.tir.block_roles import BFLOAT16_DOT

Expr = Any

LANES = 16
_PAIR, _DOT = "tvm_hetero.bfloat16_pair", "tvm_hetero.bfloat16_dot"
_BITS, _OWN_BITS = "tvm_hetero.bfloat16_bits", "tvm_hetero.bfloat16_bits_by_instruction"
# Numbers that are rounded at once: vectors of 512, 256 and 128 bits, and single ones.
_ROUNDED_LANES = (1, 4, 8, 16)


def pair(low: Expr, high: Expr) -> Expr:
    """The word of two numbers of float32 (int32)."""
    return Call(Op.get(_PAIR), [low, high], ret_ty="int32")


def bits(value: Expr) -> Expr:
    """The bits of a number of float32 that is rounded to bfloat16 (uint16)."""
    return Call(Op.get(_BITS), [value], ret_ty="uint16")


def paired_numbers(call: Call) -> tuple[Expr, Expr] | None:
    """The two numbers of a word that `pair` makes; None of any other call."""
    if not call.op.same_as(Op.get(_PAIR)):
        return None
    low, high = call.args
    return low, high


def multiplies_pairs(unit: VectorUnit) -> bool:
    """Whether a vector unit has an instruction for pairs of bfloat16."""
    return bool(unit.dots) and unit.lanes == LANES


def use_bfloat16_dots(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """A scheduled kernel whose words are made and multiplied, and whose numbers are rounded, by the
    unit's instructions.

    As it is for a unit without them.
    """
    if not multiplies_pairs(unit):
        return func
    summed = replace_sums(func, BFLOAT16_DOT, _DOT, "float32")
    if not summed.same_as(func):
        return _with_pairs(summed, [dot_text(unit.dots)])
    return _with_pairs(func, []) if _calls(func, _BITS) else func


def use_bfloat16_pairs(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A scheduled kernel whose words are made by instructions for bfloat16, and multiplied by
    others than vectors'.

    As it is where it makes no words.
    """
    return _with_pairs(func, []) if _calls(func, _PAIR) else func


def _calls(func: tirx.PrimFunc, name: str) -> bool:
    """Whether a kernel has the operation of that name."""
    found: list[Call] = []

    def note(call: Call) -> None:
        if call.op.same_as(Op.get(name)):
            found.append(call)

    tvm_ffi.structural_walk(func.body, (Call, note))
    return bool(found)


def _with_pairs(func: tirx.PrimFunc, texts: Sequence[str]) -> tirx.PrimFunc:
    """A kernel that calls functions for its words, and whose text they are in."""

    def quicker(call: Call) -> Expr:
        if call.op.same_as(Op.get(_BITS)):
            return Call(Op.get(_OWN_BITS), list(call.args), ret_ty=call.ty)
        return pair_bfloat16(*call.args) if call.op.same_as(Op.get(_PAIR)) else call

    rounding = [round_text(lanes) for lanes in _ROUNDED_LANES] if _calls(func, _BITS) else []
    root = tvm_ffi.structural_map(func.body, (Call, quicker)).block
    body = with_functions([PAIRING, *rounding, *texts], [root.body])
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


def _lower_bits(call: Call) -> Expr:
    return plain_bits(call.args[0], _lanes(call))


def _lower_own_bits(call: Call) -> Expr:
    """The instruction, or for vectors of other lengths the arithmetic."""
    lanes = _lanes(call)
    return round_bfloat16(call.args[0], lanes) if lanes in _ROUNDED_LANES else _lower_bits(call)


def _lanes(call: Call) -> int:
    return int(tvm_ffi.dtype(str(call.ty.dtype)).lanes)


register_operation(_PAIR, _lower_pair)
register_operation(_DOT, _lower_dot)
register_operation(_BITS, _lower_bits)
register_operation(_OWN_BITS, _lower_own_bits)
