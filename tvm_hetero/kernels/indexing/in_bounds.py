"""Whether an index is within bounds for any data, as far as TVM's analyzer can prove it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer

if TYPE_CHECKING:
    Expr = Any


def in_bounds(
    index: Expr,
    length: int,
    loops: Sequence[tuple[tirx.Var, int]],
    conditions: Sequence[Expr],
) -> bool:
    """Whether ``0 <= index < length`` holds.

    Parameters
    ----------
    index
        Of variables and of loads, which may be any number of their type.
    length
        Of the axis.
    loops
        Variables and their extents, from 0 on; one below 1 is unknown.
    conditions
        What holds where the index is used.
    """
    kind = str(index.ty.dtype)
    analyzer = Analyzer()
    for var, extent in loops:
        if extent > 1:
            analyzer.bind(var, _range(var, extent))
    with ExitStack() as stack:
        for condition in conditions:
            stack.enter_context(analyzer.constraint_scope(condition))
        below = _is_beyond(kind, length) or analyzer.can_prove(index < tirx.const(length, kind))
        positive = kind.startswith("uint") or analyzer.can_prove(index >= tirx.const(0, kind))
        return bool(below and positive)


def _is_beyond(kind: str, length: int) -> bool:
    """Whether no number of a type is as large as a length."""
    return length >= 2 ** (tvm_ffi.dtype(kind).bits - int(kind.startswith("int")))


def _range(var: tirx.Var, extent: int) -> tvm.ir.Range:
    kind = str(var.ty.dtype)
    return tvm.ir.Range.from_min_extent(tirx.const(0, kind), tirx.const(extent, kind))
