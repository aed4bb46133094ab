"""A state in 256 levels of its range, as ONNX Runtime's DynamicQuantizeLSTM multiplies it.

    scale = (greatest - least) / 255, 1 if that is 0             the range holds 0
    zero  = round(-least / scale)
    level = (saturate(round(h / scale) + zero) - zero) scale

The range is that of all sequences that a kernel computes together: on a CPU all of them, as in ONNX
Runtime on one thread; on a GPU one. (On several threads ONNX Runtime shares the sequences out, and
its results depend on how many threads there are.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.statements import load, loop, real, store

if TYPE_CHECKING:
    Expr = Any

_GREATEST_CODE = 255.0


def find_range(
    found: tirx.Var, rows: int, units: int, state: Callable[[Expr, Expr], Expr]
) -> list[tirx.Stmt]:
    """The statements that put the least and the greatest number of a state, or 0, into a buffer.

    Parameters
    ----------
    found
        A buffer of two numbers.
    rows, units
        How many numbers the state has.
    state
        Reads one of them.
    """

    def widen(row: Expr, unit: Expr) -> list[tirx.Stmt]:
        return [
            store(found, [0], tirx.min(load(found, 0), state(row, unit))),
            store(found, [1], tirx.max(load(found, 1), state(row, unit))),
        ]

    each = loop("b", rows, lambda row: loop("k", units, lambda unit: widen(row, unit)))
    return [store(found, [0], real(0.0)), store(found, [1], real(0.0)), each]


def level_of(value: Expr, found: tirx.Var) -> Expr:
    """The level of a number in the range that `find_range` has found."""
    least, greatest = load(found, 0), load(found, 1)
    span = (greatest - least) / real(_GREATEST_CODE)
    scale = tirx.Select(span == real(0.0), real(1.0), span)
    zero = _saturated(tirx.nearbyint(-least / scale))
    return (_saturated(tirx.nearbyint(value / scale) + zero) - zero) * scale


def _saturated(code: Expr) -> Expr:
    return tirx.max(tirx.min(code, real(_GREATEST_CODE)), real(0.0))
