"""Values of int32 that were codes of eight bits a moment ago: ``int32(codes) - zero``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.legalization import Legalization

RANGES = {"uint8": (0, 255), "int8": (-128, 127)}
"""Least and greatest code of each type."""
# All whole numbers up to here are numbers of float32.
_EXACT = 2**24


@dataclass(frozen=True)
class CodedValue:
    """Codes (uint8 or int8), and what stands for zero among them, in int32; None for 0."""

    codes: relax.Expr
    zero: relax.Expr | None

    @property
    def range(self) -> tuple[int, int]:
        """Least and greatest code."""
        return RANGES[str(self.codes.ty.dtype)]


def find_codes(bb: relax.BlockBuilder, value: relax.Expr) -> CodedValue | None:
    """The codes that a value of int32 was made of; None where it was made otherwise.

    Parameters
    ----------
    bb
        Knows what its variables stand for.
    value
        A variable.
    """
    zero, found = None, _made_by(bb, value, "relax.subtract")
    if found is not None:
        value, zero = found.args
        if zero.ty.ndim != 0:
            return None
    cast = _made_by(bb, value, "relax.astype")
    if cast is None or str(cast.args[0].ty.dtype) not in RANGES:
        return None
    return CodedValue(cast.args[0], zero)


def float_holds_sums(weights: NDArray[Any], farthest: int) -> bool:
    """Whether float32 holds every sum of codes less their zero point, times weights.

    Parameters
    ----------
    weights
        ``[outputs, ...]``, whole numbers.
    farthest
        How far a code may be from the zero point.
    """
    magnitudes = np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(axis=1)
    return int(magnitudes.max(initial=0)) * farthest <= _EXACT


def multiplies_bytes(use: Legalization) -> bool:
    """Whether every target has instructions for products of bytes or of pairs of 16 bits."""
    return not use.on_gpus and all(unit.pairs for unit in use.units)


def _made_by(bb: relax.BlockBuilder, value: relax.Expr, operator: str) -> relax.Call | None:
    """The call of an operator that a variable stands for, None for other values."""
    made = bb.lookup_binding(value) if isinstance(value, relax.Var) else None
    is_one = isinstance(made, relax.Call) and getattr(made.op, "name", "") == operator
    return made if is_one else None
