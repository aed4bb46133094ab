"""Kernels that read or write a tensor in bfloat16, and compute what they did.

A kernel in bfloat16 rounds the data that it multiplies (`narrow_kernel`). Where nobody else reads
these data, whoever makes them may as well round them: then they are half as many bytes in memory,
and numbers are the same, since to round once more changes nothing.

    writes_bfloat16     out[i] = bits(value)                    for     out[i] = value
    reads_bfloat16      word(bits of x[i], bits of x[j])        for     pair(x[i], x[j])

Both take kernels that are not scheduled, and the schedules that they had apply to what they give:
to round is one more operation of what was fused behind (`bfloat16_dot_ops.bits`, an instruction
where there is one), and to make words of bits is what a stage did that copied rounded numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.cpu.bfloat16_dot_ops import bits, paired_numbers
from tvm_hetero.kernels.tir.index_values import FLOPS
from tvm_hetero.kernels.tir.statements import tensor

if TYPE_CHECKING:
    Expr = Any

NARROW = "bfloat16"
_WIDE, _BITS, _WORD = "float32", "uint16", "int32"


def writes_bfloat16(func: tirx.PrimFunc, flops: float) -> tirx.PrimFunc:
    """The kernel with its output, the last parameter, in bfloat16.

    Parameters
    ----------
    func
        A kernel that is not scheduled.
    flops
        Arithmetic operations of a call, which the kernel says of itself.

    Raises
    ------
    ValueError
        If that is no tensor of float32 that one block writes, value by value, and no one reads.
    """
    out = func.params[-1]
    if str(out.dtype) != _WIDE or not _is_written_once(func, out):
        raise ValueError("the output is no float32 that is written once")
    narrow = _as_bfloat16(out)

    def store(old: tirx.BufferStore) -> tirx.Stmt:
        if not old.buffer.same_as(out):
            return old
        value = tirx.reinterpret(NARROW, bits(old.value))
        return tirx.BufferStore(narrow, value, list(old.indices))

    body = tvm_ffi.structural_map(func.body, (tirx.BufferStore, store))
    return _with_parameter(func, body, out, narrow, flops)


def _is_written_once(func: tirx.PrimFunc, out: tirx.Var) -> bool:
    blocks: list[s_tir.SBlock] = []

    def note(block: s_tir.SBlock) -> None:
        if any(region.source.same_as(out) for region in block.writes):
            blocks.append(block)

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, note))
    if len(blocks) != 1 or blocks[0].init is not None or out in _loads(func.body):
        return False
    return isinstance(blocks[0].body, tirx.BufferStore)


def rounded_parameters(func: tirx.PrimFunc) -> tuple[int, ...]:
    """The parameters of float32 of which a kernel makes words, and reads nothing else.

    It computes with these numbers rounded to bfloat16, so they may as well come so.
    """
    every, paired = _loads(func.body), Counter[tirx.Var]()

    def note(call: Call) -> None:
        low, high = (_load_in(each) for each in paired_numbers(call) or (None, None))
        if low is not None and high is not None and low.source.same_as(high.source):
            paired.update([low.source, high.source])

    tvm_ffi.structural_walk(func.body, (Call, note))
    return tuple(
        i for i, p in enumerate(func.params)
        if str(p.dtype) == _WIDE and 0 < every[p] == paired[p]
    )  # fmt: skip


def _loads(body: tirx.Stmt) -> Counter[tirx.Var]:
    """How often each buffer is read in a body's text."""
    found: Counter[tirx.Var] = Counter()
    tvm_ffi.structural_walk(body, (TensorLoad, lambda load: found.update([load.source])))
    return found


def reads_bfloat16(func: tirx.PrimFunc, parameter: int, flops: float) -> tirx.PrimFunc:
    """The kernel with one of its `rounded_parameters` in bfloat16.

    Raises
    ------
    ValueError
        If it is none of them.
    """
    if parameter not in rounded_parameters(func):
        raise ValueError(f"parameter {parameter} is no data that the kernel only makes words of")
    data = func.params[parameter]
    narrow = _as_bfloat16(data)

    def short(load: TensorLoad) -> Expr:
        return tirx.reinterpret(_BITS, tirx.BufferLoad(narrow, list(load.indices)))

    def word(call: Call) -> Expr:
        pair = paired_numbers(call)
        if pair is None or not all(_reads(each, data) for each in pair):
            return call
        low, high = (tirx.Cast(_WORD, _bits_of(each, short)) for each in pair)
        return tirx.bitwise_or(low, tirx.shift_left(high, tirx.const(16, _WORD)))

    body = tvm_ffi.structural_map(func.body, (Call, word))
    return _with_parameter(func, body, data, narrow, flops)


def _reads(value: Expr, data: tirx.Var) -> bool:
    load = _load_in(value)
    return load is not None and load.source.same_as(data)


def _load_in(value: Expr) -> TensorLoad | None:
    """The load that a number is, perhaps with zeros beyond some end; None of any other."""
    if isinstance(value, TensorLoad):
        return value
    if not (isinstance(value, Call) and value.op.name == "prim.if_then_else"):
        return None
    _, inner, other = value.args
    zero = isinstance(other, tirx.FloatImm) and float(other.value) == 0.0
    return _load_in(inner) if zero else None


def _bits_of(value: Expr, short: Callable[[TensorLoad], Expr]) -> Expr:
    """The bits of a number that `_load_in` knows."""
    if isinstance(value, TensorLoad):
        return short(value)
    condition, inner, _ = value.args
    return tirx.if_then_else(condition, _bits_of(inner, short), tirx.const(0, _BITS))


def _as_bfloat16(buffer: tirx.Var) -> tirx.Var:
    return tensor(buffer.name, [int(extent) for extent in buffer.shape], NARROW)


def _with_parameter(
    func: tirx.PrimFunc, body: tirx.Stmt, old: tirx.Var, new: tirx.Var, flops: float
) -> tirx.PrimFunc:
    """The kernel of that body, one of whose parameters is another one now."""
    body = tvm_ffi.structural_map(body, (tirx.Var, lambda v: new if v.same_as(old) else v))
    params = [new if p.same_as(old) else p for p in func.params]
    attrs = {**dict(func.attrs or {}), FLOPS: float(flops)}
    return tirx.PrimFunc(params, body).with_attrs(attrs)
