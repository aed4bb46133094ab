"""Sums of products of bytes as operations of TIR, which TVM's own passes vectorise.

A kernel before any schedule has the arithmetic itself (`byte_dots.plain_dot`), which every target
can compute. Once it is scheduled for a CPU, `use_byte_dots` puts one operation in its place,

    sum = tvm_hetero.byte_dot.<n>(sum, codes, weights)

of which TVM's vectorizer makes one of whole vectors, and TVM's last pass (`LowerIntrin`) the
instructions that it stands for: there are as many operations as kinds of these. So it does in
every pipeline. They are known to TVM as soon as this file has been read.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call, Op, register_op_attr
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.cpu.byte_dots import PLAIN, ByteDot, add_byte_products, byte_dot
from tvm_hetero.kernels.cpu.vector_unit import VectorUnit, known_units
from tvm_hetero.kernels.tir.block_roles import BYTES_DOT

Expr = Any

_PURE = 1  # tirx::CallEffectKind


def use_byte_dots(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """A scheduled kernel, whose sums of words of bytes are added by the unit's instructions."""
    sums: dict[tirx.Var, tuple[tirx.Var, tirx.Var]] = {}

    def note(block: s_tir.SBlock) -> None:
        if BYTES_DOT in block.annotations and len(block.reads) >= len(("codes", "weights")):
            codes, weights = (region.source for region in block.reads[-2:])
            sums[block.writes[0].source] = codes, weights

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, note))
    if not sums:
        return func
    op = Op.get(_name(unit))

    def as_one(store: tirx.BufferStore) -> tirx.Stmt:
        if store.buffer not in sums or not isinstance(store.value, tirx.Add):
            return store
        total, *sides = (_load(store.value, b) for b in (store.buffer, *sums[store.buffer]))
        value = Call(op, [total, *sides], ret_ty="int32")
        return tirx.BufferStore(store.buffer, value, list(store.indices))

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.BufferStore, as_one)))


def _load(value: Expr, buffer: tirx.Var) -> TensorLoad:
    """The first load of a buffer in an expression."""
    found: list[TensorLoad] = []

    def note(load: TensorLoad) -> None:
        if load.source.same_as(buffer):
            found.append(load)

    tvm_ffi.structural_walk(value, (TensorLoad, note))
    return found[0]


def _name(unit: VectorUnit) -> str:
    return f"tvm_hetero.byte_dot.{_UNITS.index(_facts(unit))}"


def _facts(unit: VectorUnit) -> tuple[ByteDot, int]:
    return byte_dot(unit, unit.lanes), unit.lanes


def _lower(dot: ByteDot, lanes: int, call: Call) -> Expr:
    """The instructions, or for vectors of other lengths the arithmetic."""
    found = tvm_ffi.dtype(str(call.ty.dtype)).lanes
    total, codes, weights = call.args
    return add_byte_products(total, codes, weights, dot if found == lanes else PLAIN, found)


_UNITS = sorted({_facts(unit) for unit in known_units()}, key=str)
for _unit in _UNITS:
    _op = f"tvm_hetero.byte_dot.{_UNITS.index(_unit)}"
    register_op_attr(_op, "TVectorizable", True)
    register_op_attr(_op, "TCallEffectKind", _PURE)
    register_op_attr(_op, "TScriptPrinterName", _op)
    tirx.op.register_intrin_lowering(_op, "default", f=partial(_lower, *_unit))
