"""What a rule may use that builds the kernel of an operator (`tvm_hetero.kernels.legalize`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import relax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit


@dataclass(frozen=True)
class Legalization:
    """What a rule may use.

    Attributes
    ----------
    builder
        Receives the kernels.
    known
        The value of an argument where it is constant, else None.
    units
        Vector units of the targets, widest first (`packing.packing_units`).
    plain_sums
        Whether convolutions are to be summed up as they are written.
    emitted
        An argument as a kernel may read it: constants that were computed are only names so far.
    on_gpus
        Whether a target is a GPU.
    """

    builder: relax.BlockBuilder
    known: Callable[[Any], NDArray[Any] | None]
    units: Sequence[VectorUnit]
    plain_sums: bool = False
    emitted: Callable[[relax.Expr], relax.Expr] = lambda expr: expr
    on_gpus: bool = False
