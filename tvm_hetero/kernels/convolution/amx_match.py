"""Which convolutions tile registers can take (`amx_conv2d`), and what there is to know of them.

These are sums of products of words, each with the numbers of neighbouring channels at one point:
two of bfloat16 (`kernels.narrow_kernel`) or four bytes (`bytes_conv2d`). A register's right side is
16 words of as many output channels, which is how weights are packed; of its left side a row is the
words of one point, and points next to each other must follow one another by one stride.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from tvm_hetero.kernels.cpu.amx import BFLOAT16, ROWS, UNSIGNED_BY_SIGNED, WIDE
from tvm_hetero.kernels.cpu.word_sums import first_load
from tvm_hetero.kernels.matmul.product_bfloat16 import largest_divisor
from tvm_hetero.kernels.tir.block_roles import (
    ACCUMULATE,
    BFLOAT16_DOT,
    BYTES_DOT,
    blocks_of,
    find_role,
)
from tvm_hetero.kernels.tir.blocks import inline_epilogue
from tvm_hetero.kernels.tir.image_results import ImageResults
from tvm_hetero.kernels.tir.statements import extents_of, whole

if TYPE_CHECKING:
    Expr = Any

_INSTRUCTIONS = {BFLOAT16_DOT: BFLOAT16, BYTES_DOT: UNSIGNED_BY_SIGNED}
# What registers hold at least: words of a row of a left side, and channels (a product takes as
# long with fewer), and points.
_LEAST_WORDS, _LEAST_CHANNELS, _LEAST_POINTS = 8, 8, 4


@dataclass(frozen=True)
class WordConvolution:
    """A convolution of words, and what follows it.

    Attributes
    ----------
    words : ``[images, words, ...]``: what stands behind the words of a point is one line of points.
    weights : ``[blocks, words, rows, columns, block]``.
    results : of the whole kernel: `ImageResults.result` makes one of a sum.
    instruction : that multiplies registers.
    steps : variables of the words, rows and columns of a window; None for a window of one.
    spatial : the variables of images, blocks, rows (None where rows are joined) and points.
    read : the indices of the words that a sum reads, in these variables.
    """

    words: tirx.Var
    weights: tirx.Var
    results: ImageResults
    instruction: str
    steps: tuple[tirx.Var | None, ...]
    spatial: tuple[tirx.Var | None, ...]
    read: tuple[Expr, ...]

    @property
    def depth(self) -> int:
        """Words of a group."""
        return extents_of(self.weights)[1]

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns of a window."""
        _, _, rows, columns, _ = extents_of(self.weights)
        return rows, columns

    @property
    def block(self) -> int:
        """Output channels that stand together in the weights."""
        return extents_of(self.weights)[-1]

    @property
    def grouped(self) -> bool:
        """Whether there are several groups of channels."""
        return extents_of(self.words)[1] > self.depth

    @property
    def points(self) -> int:
        """Points of an image's line of words."""
        return math.prod(extents_of(self.words)[2:])

    @property
    def rows(self) -> tuple[int, int]:
        """Rows of results, and points of a row; one row where rows are joined."""
        height, width = self.results.results[2:]
        return (1, height * width) if self.spatial[2] is None else (height, width)

    @property
    def k(self) -> int:
        """Words of a row of a left side."""
        return largest_divisor(self.depth, WIDE)

    @property
    def n(self) -> int:
        """Output channels of a register."""
        return largest_divisor(self.block, WIDE)

    @property
    def m(self) -> int:
        """Points of a register."""
        return min(ROWS, self.rows[1])

    def place(self, at: Mapping[int, Expr], step: Sequence[Expr | int]) -> tuple[Expr, Expr]:
        """Which word of which point of the line a sum reads first.

        ``at`` are values of `spatial` by their place, ``step`` the first word, row and column.
        """
        values = {self.spatial[i]: value for i, value in at.items()}
        values |= dict(zip(self.steps, step, strict=True))
        known = {
            var: whole(value) if isinstance(value, int) else value
            for var, value in values.items()
            if var is not None
        }
        rules = [(tirx.Var, lambda var: known.get(var, var))]
        index = [tvm_ffi.structural_map(each, rules) for each in self.read]
        analyzer = Analyzer()
        line = _flat(index[2:], extents_of(self.words)[2:])
        return analyzer.simplify(index[1]), analyzer.simplify(line)


def find_words(sch: s_tir.Schedule) -> WordConvolution:
    """The convolution of words that ``main`` computes, what follows it inlined.

    Raises
    ------
    ValueError
        If it computes anything else, or what registers do not hold.
    """
    acc = find_role(sch, ACCUMULATE)
    marks = () if acc is None else [n for n in _INSTRUCTIONS if n in sch.get(acc).annotations]
    if acc is None or not marks:
        raise ValueError("no convolution of words")
    last = sch.get(inline_epilogue(sch, acc))
    block = sch.get(acc)
    ends = [sch.get(each) for each in blocks_of(sch)[-2:]]
    if not (ends[0].same_as(block) and ends[1].same_as(last)):
        raise ValueError("more is computed than a convolution and what follows it")
    if len(list(last.iter_vars)) != 4:
        raise ValueError("the results are no images")
    *_, words, weights = (region.source for region in block.reads)
    images, channels, height, width = (int(v.dom.extent) for v in last.iter_vars)
    sums = block.writes[0].source
    results = ImageResults((images, channels, height, width), last, sums)
    results.check(tirx.const(0, str(sums.dtype)))
    data, filters = (first_load(block.body, each) for each in (words, weights))
    spatial = [v.var for v in block.iter_vars if v.iter_type == tirx.IterVar.DataPar]
    rows = spatial[2] if len(spatial) == 5 else None
    found = WordConvolution(
        words, weights, results, _INSTRUCTIONS[marks[0]],
        tuple(i if isinstance(i, tirx.Var) else None for i in list(filters.indices)[1:4]),
        (spatial[0], spatial[1], rows, spatial[-2]),
        tuple(data.indices),
    )  # fmt: skip
    _check(found)
    return found


def _check(found: WordConvolution) -> None:
    """Raise where registers would be near empty, or rows of a left side not one stride apart."""
    if found.k < _LEAST_WORDS or found.m < _LEAST_POINTS:
        raise ValueError(f"{found.depth} words, {found.rows[1]} points: registers near empty")
    if found.n < _LEAST_CHANNELS:
        raise ValueError(f"blocks of {found.block} channels: registers near empty")
    x, o = tirx.Var("x", "int64"), tirx.Var("o", "int64")
    at = {0: whole(0), 1: o, 2: tirx.Var("y", "int64"), 3: x}
    word, line = found.place(at, (0, 0, 0))
    second, beside = found.place({**at, 3: x + 1}, (1, 0, 0))
    analyzer = Analyzer()
    apart = analyzer.simplify(beside - line), analyzer.simplify(second - word)
    if not all(isinstance(each, tirx.IntImm) and int(each) == 1 for each in apart):
        raise ValueError("points beside each other are not beside each other in memory")


def _flat(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """Several indices as one."""
    place: Expr = whole(0)
    for index, extent in zip(indices, shape, strict=True):
        place = place * extent + index
    return place
