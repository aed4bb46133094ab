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
from tvm import tirx
from tvm.ir import Call

from tvm_hetero.kernels.cpu.byte_dots import PLAIN, ByteDot, add_byte_products, byte_dot
from tvm_hetero.kernels.cpu.vector_unit import VectorUnit, known_units
from tvm_hetero.kernels.cpu.word_sums import register_operation, replace_sums
from tvm_hetero.kernels.tir.block_roles import BYTES_DOT

Expr = Any


def use_byte_dots(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """A scheduled kernel, whose sums of words of bytes are added by the unit's instructions."""
    return replace_sums(func, BYTES_DOT, _name(unit), "int32")


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
    register_operation(f"tvm_hetero.byte_dot.{_UNITS.index(_unit)}", partial(_lower, *_unit))
