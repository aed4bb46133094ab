"""Lengths of sequences that are none are an error, as they are for ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm
from tvm import tirx

from tvm_hetero.kernels.indexing.checks import ERROR, register_index_error
from tvm_hetero.kernels.recurrent.frame import RecurrentFrame
from tvm_hetero.kernels.tir.statements import load, loop, when, whole, wide

if TYPE_CHECKING:
    Expr = Any


def check_lengths(frame: RecurrentFrame) -> list[tirx.Stmt]:
    """The statements that a kernel with lengths of sequences begins with."""
    lengths, r = frame.tensors.lengths, frame.r
    if lengths is None:
        return []
    register_index_error()
    name = tvm.ir.StringImm(f"'{lengths.name}' (lengths of sequences of {r.steps} steps)")

    def check(b: Expr) -> tirx.Stmt:
        given = wide(load(lengths, b))
        outside = tirx.any(given < whole(0), given > whole(r.steps))
        numbers = [whole(0), given, whole(0), whole(r.steps + 1)]
        return when(outside, tirx.Evaluate(tirx.call_packed(ERROR, name, *numbers)))

    return [loop("b", r.batch, check)]
