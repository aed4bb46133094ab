"""The words of a convolution by tile registers (`amx_conv2d`): in registers, and turned for them.

A left side has the words of a point in a row, one point below the other. Words are made as images,
points side by side, so squares of 16 points by 16 words change sides before anything is summed up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.convolution.amx_match import WordConvolution
from tvm_hetero.kernels.cpu.amx import BFLOAT16, WIDE
from tvm_hetero.kernels.matmul.gemm import WORTH_SHARING
from tvm_hetero.kernels.tir.statements import (
    PARALLEL,
    SERIAL,
    extents_of,
    load,
    loop,
    ramp,
    store,
    tensor,
    whole,
)
from tvm_hetero.kernels.tir.straight_line import Straight, transpose

if TYPE_CHECKING:
    Expr = Any

# Bytes of a word. Points so many bytes apart share few sets of the first cache, so there are words
# behind those of a point.
WORD, _SETS, _APART = 4, 1024, 16
# Cycles of a square that changes sides, and of a register of results: 64 shuffles and 32 loads and
# stores each, and what follows.
_TURN, _RESULTS = 100, 120


@dataclass(frozen=True)
class AmxTiles:
    """A convolution in registers: its words turned, and how many registers there are of what.

    Attributes
    ----------
    conv : the convolution.
    turned : the words, [image, point, word], as one array: TVM would take out the padding.
    apart : words from a point to the next.
    """

    conv: WordConvolution
    turned: tirx.Var
    apart: int

    @staticmethod
    def of(conv: WordConvolution) -> AmxTiles:
        words = extents_of(conv.words)[1]
        apart = words + _APART if words * WORD % _SETS == 0 else words
        count = conv.results.images * conv.points * apart
        return AmxTiles(conv, tensor("turned", [count], "int32"), apart)

    @property
    def in_row(self) -> int:
        """Registers of a row of points."""
        return -(-self.conv.rows[1] // self.conv.m)

    @property
    def left(self) -> int:
        """Registers of an image's points."""
        return self.conv.rows[0] * self.in_row

    @property
    def right(self) -> int:
        """Registers of the channels."""
        return -(-self.conv.results.results[1] // self.conv.n)

    @property
    def pairs(self) -> tuple[int, int]:
        """Registers of points, and of channels, that meet: two each, where there are two."""
        return min(2, self.left), 1 if self.conv.grouped else min(2, self.right)

    @property
    def counts(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Registers of points, and of channels, and how many of each go together."""
        points, channels = self.pairs
        return (self.left, points), (self.right, channels)

    @property
    def cycles(self) -> int:
        """About how many cycles the products take."""
        rows, columns = self.conv.window
        products = rows * columns * (self.conv.depth // self.conv.k)
        return self.conv.results.images * self.left * self.right * products * self.conv.m

    @property
    def estimate(self) -> int:
        """About how many cycles all takes: words that are turned, products, results."""
        images, words = self.conv.results.images, extents_of(self.conv.words)[1]
        squares = images * -(-self.conv.points // WIDE) * -(-words // WIDE)
        return _TURN * squares + self.cycles + _RESULTS * images * self.left * self.right

    @property
    def by_vectors(self) -> int:
        """About how many cycles the products take by vectors: two of bytes a cycle, or one."""
        images, channels, height, width = self.conv.results.results
        rows, columns = self.conv.window
        vectors = images * channels * height * width * rows * columns * self.conv.depth // WIDE
        return vectors if self.conv.instruction == BFLOAT16 else vectors // 2

    def first_point(self, m: Expr) -> tuple[Expr, Expr]:
        """Row and column of the first point of a register."""
        row, t = (whole(0), m) if self.conv.rows[0] == 1 else (m // self.in_row, m % self.in_row)
        return row, tirx.min(t * self.conv.m, whole(self.conv.rows[1] - self.conv.m))

    def column(self, j: Expr) -> tuple[Expr, Expr]:
        """The block of a register's channels, and where in it they begin."""
        return j * self.conv.n // self.conv.block, j * self.conv.n % self.conv.block


def turn_words(tiles: AmxTiles, cores: int) -> tirx.Stmt:
    """The words of each point, side by side."""
    conv, images = tiles.conv, tiles.conv.results.images
    words, points = extents_of(conv.words)[1], conv.points
    between = [whole(0)] * (len(extents_of(conv.words)) - 3)

    def place(g: Expr, point: Expr, word: Expr) -> Expr:
        return (g * points + point) * tiles.apart + word

    def square(g: Expr, p: Expr, q: Expr) -> tirx.Stmt:
        code = Straight()
        lines = [code.let(load(conv.words, g, q + i, *between, ramp(p, WIDE))) for i in range(WIDE)]
        for i, line in enumerate(transpose(code, lines)):
            code.add(store(tiles.turned, [ramp(place(g, p + i, q), WIDE)], line))
        return tirx.SeqStmt(code.statements)

    def single(g: Expr, p: Expr, q: Expr) -> tirx.Stmt:
        return store(tiles.turned, [place(g, p, q)], load(conv.words, g, q, *between, p))

    in_squares = min(words, points) >= WIDE
    size, one = (WIDE, square) if in_squares else (1, single)
    count = -(-points // size)
    parallel = cores > 1 and images * words * points >= WORTH_SHARING

    def some(index: Expr) -> tirx.Stmt:
        p = begin_of(index % count, size, points)
        return loop("word", -(-words // size), lambda q: one(
            index // count, p, begin_of(q, size, words)
        ))  # fmt: skip

    return loop("point", images * count, some, PARALLEL if parallel else SERIAL)


def begin_of(index: Expr, size: int, count: int) -> Expr:
    """Where the part of that index begins; the last one earlier where they do not come out even."""
    return index * size if count % size == 0 else tirx.min(index * size, whole(count - size))
