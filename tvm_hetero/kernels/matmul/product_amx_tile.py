"""A tile of a product by tile registers (`product_amx`): its sums, and its constants in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.cpu.amx import NARROW, ROWS, WIDE
from tvm_hetero.kernels.cpu.bfloat16_pairs import in_turn
from tvm_hetero.kernels.matmul.product_bfloat16 import Bfloat16Product, largest_divisor
from tvm_hetero.kernels.tir.prefetch import LINE, OUTER, ask
from tvm_hetero.kernels.tir.statements import bound, load, ramp, store, tensor, whole

if TYPE_CHECKING:
    Expr = Any
    # Moves a register to or from a place of a buffer, with so many bytes from row to row.
    Move = Callable[[int, tirx.Var, Sequence[Expr], int], tirx.Stmt]

# Registers for sums.
SUMS = range(4)
# Steps that are put in turn before they are multiplied: 32 KiB of constants with 64 columns.
_STRETCH = 256


@dataclass(frozen=True)
class AmxTile:
    """Rows that meet a block of constants, and what is kept of it meanwhile.

    Attributes
    ----------
    main
        The product.
    stretch
        Steps that are put in turn before they are multiplied.
    chains
        Sums of every so-many-th 32 steps, each in a register of its own: a product begins every 16
        cycles, but is added to after 52.
    sums, turned
        [chain, row, column], and constants as right sides.
    """

    main: Bfloat16Product
    stretch: int
    chains: int
    sums: tirx.Var
    turned: tirx.Var

    @property
    def parts(self) -> int:
        """Registers that the columns of a block take."""
        return self.main.block // WIDE

    @property
    def rows(self) -> int:
        """Registers that the rows take."""
        return -(-self.main.tile // ROWS)

    @property
    def alone(self) -> bool:
        """Whether all sums are in registers from the first stretch to the last."""
        return self.rows == 1 and self.parts * self.chains <= len(SUMS)

    def moved(self, move: Move, r: Expr, at: int) -> list[tirx.Stmt]:
        """Some sums of the ``r``-th rows, from the ``at``-th part on, to or from registers."""
        across = 4 * self.main.block
        return [
            move(c * self.chains + q, self.sums, [whole(q), r * ROWS, whole(at + c) * WIDE], across)
            for c in range(min(len(SUMS), self.parts - at))
            for q in range(self.chains)
        ]


def tile_of(main: Bfloat16Product) -> AmxTile:
    count = largest_divisor(main.depth // NARROW, _STRETCH // NARROW)
    chains = largest_divisor(count, max(1, len(SUMS) // (main.block // WIDE)))
    sums = tensor("tile", [chains, main.tile, main.block])
    turned = tensor("turned", [count * NARROW * main.block // 2])
    return AmxTile(main, count * NARROW, chains, sums, turned)


@dataclass(frozen=True)
class Coming:
    """The stretch of constants that comes next: what is asked for of it, and when.

    A third of its lines while this one is put in turn, the rest while it is multiplied, so that the
    memory never rests.
    """

    tile: AmxTile
    o: Expr
    s: Expr

    @property
    def lines(self) -> int:
        """Of a stretch."""
        return self.tile.stretch * self.tile.main.block * 2 // LINE

    @property
    def first(self) -> int:
        """Lines that are asked for with each two steps that are put in turn."""
        return max(1, self.lines // 3 // (self.tile.stretch // 2))

    def turning(self, j: Expr) -> list[tirx.Stmt]:
        """What to ask for with the ``j``-th two steps."""
        return [self._line(j * self.first + i) for i in range(self.first)]

    def multiplying(self, r: Expr, k: Expr) -> list[tirx.Stmt]:
        """What to ask for with the ``k``-th registers of the ``r``-th rows."""
        done, count = self.first * (self.tile.stretch // 2), self.tile.stretch // NARROW
        each = -(-max(0, self.lines - done) // (self.tile.rows * count))
        return [self._line((r * count + k) * each + (done + i)) for i in range(each)]

    def _line(self, line: Expr) -> tirx.Stmt:
        main, numbers = self.tile.main, LINE // 2
        place = main.constants(self.o, self.s * self.tile.stretch, line * numbers)
        return ask(main.right.source, place, OUTER)


def put_in_turn(tile: AmxTile, o: Expr, s: Expr, j: Expr, comes: Coming | None) -> list[tirx.Stmt]:
    """The ``j``-th two steps of a stretch, in turn: [16 such steps, 16 columns] a register."""
    main, steps, found = tile.main, s * (tile.stretch // 2) + j, []
    statements = comes.turning(j) if comes else []
    for part in range(0, tile.parts, 2):
        count = min(2, tile.parts - part) * WIDE
        column = ramp(whole(part * WIDE), count)
        rows = [load(main.right.source, *main.constants(o, steps * 2 + k, column)) for k in (0, 1)]
        bits = [bound("row", tirx.reinterpret(f"uint16x{count}", row)) for row in rows]
        statements += [bind for _, bind in bits]
        found += _two_rows([var for var, _ in bits], count)
    for part, value in enumerate(found):
        place = (j // ROWS * tile.parts + part) * (ROWS * WIDE) + j % ROWS * WIDE
        statements.append(store(tile.turned, [ramp(place, WIDE)], value))
    return statements


def _two_rows(rows: Sequence[Expr], count: int) -> list[Expr]:
    """Numbers of two rows in turn: of 32 within each 128 bits, of 16 one by one."""
    if count == NARROW:
        return in_turn(*(tirx.reinterpret(f"float32x{WIDE}", row) for row in rows))
    order = [place for i in range(WIDE) for place in (i, i + WIDE)]
    return [tirx.reinterpret(f"float32x{WIDE}", tirx.Shuffle(list(rows), order))]
