"""What the parts of Winograd kernels share: the matrices of all elements, blocks, pixels in
vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx

from tvm_hetero.kernels.convolution.winograd.transforms import ELEMENTS
from tvm_hetero.kernels.tir.statements import load, loop, ramp, sequence, store, tensor

if TYPE_CHECKING:
    from tvm_hetero.kernels.tir.statements import Body

    Expr = Any


@dataclass(frozen=True)
class Matrices:
    """A matrix for each of a tile's elements; values of all elements are written one by one.

    Matrices are apart by an odd number of rows. Were that a power of two, the 36 places of a value
    would share a few lines of the first-level cache.
    They are one array without dimensions, since TVM would take the padding out of any other.

    Attributes
    ----------
    buffer : all values.
    rows, width : of each matrix, the padding row included.
    """

    buffer: tirx.Var
    rows: int
    width: int

    @staticmethod
    def of(name: str, rows: int, width: int, count: int = 1) -> Matrices:
        """The matrices of all elements, or ``count`` times as many."""
        apart = rows | 1
        return Matrices(tensor(name, [count * ELEMENTS * apart * width]), apart, width)

    def at(self, element: Expr, row: Expr, column: Expr, lanes: int) -> Expr:
        """The indices of a vector."""
        return ramp((element * self.rows + row) * self.width + column, lanes)

    def load(self, element: Expr, row: Expr, column: Expr, lanes: int) -> Expr:
        """A vector."""
        return load(self.buffer, self.at(element, row, column, lanes))

    def store(self, element: Expr, row: Expr, column: Expr, value: Expr) -> tirx.Stmt:
        """Writes a vector."""
        lanes = int(value.ty.dtype.lanes)
        return store(self.buffer, [self.at(element, row, column, lanes)], value)


def make_block(name: str, body: Body, buffers: Sequence[tirx.Var] = ()) -> tirx.Stmt:
    """An opaque block, which may have buffers of its own."""
    inner = s_tir.SBlock([], [], [], name, sequence(body), alloc_buffers=list(buffers))
    return s_tir.SBlockRealize([], tirx.const(True, "bool"), inner)


def loop_over_pixels(count: Expr, lanes: int, body: Callable[[Expr], Body]) -> tirx.Stmt:
    """``body`` for each of ``count`` pixels, ``lanes`` at a time: it gets the first of them.

    The last ones begin earlier, where they do not come out even, so some pixels have their turn
    twice.
    """
    last = count - lanes
    return loop("pixels", (count + (lanes - 1)) // lanes, lambda i: body(tirx.min(i * lanes, last)))
