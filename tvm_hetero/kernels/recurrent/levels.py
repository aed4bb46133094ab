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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.statements import bind_value, load, loop, ramp, real, store, whole

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
        A buffer ``[2, lanes]``; the numbers stand first.
    rows, units
        How many numbers the state has.
    state
        Reads one of them, or a vector.
    """
    lanes = int(found.ty.shape[1])
    width = lanes if units % lanes == 0 else 1
    sides = list(enumerate((tirx.min, tirx.max)))

    def widen(row: Expr, v: Expr) -> list[tirx.Stmt]:
        value = state(row, ramp(v * width, width))
        return [_kept(found, side, whole(0), width, value, better) for side, better in sides]

    nothing = [store(found, [side, i], real(0.0)) for side in (0, 1) for i in range(width)]
    each = loop("b", rows, lambda row: loop("k", units // width, lambda v: widen(row, v)))
    joined = [
        _kept(found, side, whole(0), 1, load(found, side, i), better)
        for side, better in sides
        for i in range(1, width)
    ]
    return [*nothing, each, *joined]


def _kept(
    found: tirx.Var, side: int, at: Expr, lanes: int, value: Expr, better: Callable[..., Expr]
) -> tirx.Stmt:
    place = [whole(side), ramp(at, lanes)]
    return store(found, place, better(load(found, *place), value))


@dataclass(frozen=True)
class Levels:
    """The levels of a state: how far they are apart, and the code of 0."""

    scale: Expr
    zero: Expr

    def code_of(self, value: Expr) -> Expr:
        """The code of a number, as a float."""
        return _saturated(tirx.nearbyint(value / self.scale) + self.zero)

    def level_of(self, value: Expr) -> Expr:
        """The level of a number."""
        return (self.code_of(value) - self.zero) * self.scale


def levels_of(found: tirx.Var) -> tuple[Levels, list[tirx.Stmt]]:
    """The levels of the range that `find_range` has found, and the statements that they need."""
    least, greatest = load(found, 0, 0), load(found, 1, 0)
    span, bind_span = bind_value("span", (greatest - least) / real(_GREATEST_CODE))
    chosen = tirx.Select(span == real(0.0), real(1.0), span)
    scale, bind_scale = bind_value("scale", chosen)
    zero, bind_zero = bind_value("zero", _saturated(tirx.nearbyint(-least / scale)))
    return Levels(scale, zero), [bind_span, bind_scale, bind_zero]


def _saturated(code: Expr) -> Expr:
    return tirx.max(tirx.min(code, real(_GREATEST_CODE)), real(0.0))
