"""Convolutions of words by tile registers (`cpu.amx`): of bfloat16, and of bytes.

Notation
    C output channels, points p (of a row, or of joined rows), words q of a point, windows (r, s):

        sum[p, c] = sum over q, r, s of  word[p moved by r, s; q] . weight[c, q, r, s]

    A register of sums has M points by N channels, a left side M points by K words, a right side
    K words by N channels.

How it is done
    turned     the words of a point side by side: squares of 16 points by 16 words change sides
    sums       two times two registers, for all words of the window; a right side is read from the
               packed weights as they stand
    results    each register of sums, turned to points side by side, with what is fused behind

    for each two times M points, each two times N channels      (`_ordered`: which of them outside)

    Two left and two right sides are loaded for four products, in half of the products' time. The
    last registers begin earlier where they do not come out even, so some results have their turn
    twice.

Constraints
    `amx_match` says which kernels these are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx

from tvm_hetero.kernels.convolution.amx_match import WordConvolution, find_words
from tvm_hetero.kernels.convolution.amx_words import WORD, AmxTiles, begin_of, turn_words
from tvm_hetero.kernels.convolution.stages import schedule_stages
from tvm_hetero.kernels.convolution.winograd.pixels import make_block
from tvm_hetero.kernels.cpu.amx import (
    ROWS,
    WIDE,
    configure_tiles,
    dot_tiles,
    load_tile,
    release_tiles,
    store_tile,
    tile_functions,
    zero_tile,
)
from tvm_hetero.kernels.cpu.bfloat16_dot_ops import use_bfloat16_pairs
from tvm_hetero.kernels.cpu.llvm_functions import with_functions
from tvm_hetero.kernels.matmul.gemm import WORTH_SHARING
from tvm_hetero.kernels.tir.block_roles import ACCUMULATE, find_role
from tvm_hetero.kernels.tir.multicore import GRAINS
from tvm_hetero.kernels.tir.prefetch import LINE, OUTER, prefetch_line
from tvm_hetero.kernels.tir.statements import (
    PARALLEL,
    VECTORIZED,
    broadcast,
    extents_of,
    load,
    loop,
    ramp,
    store,
    tensor,
    when,
    whole,
    whole_region,
)
from tvm_hetero.kernels.tir.straight_line import Straight, transpose
from tvm_hetero.kernels.tir.unchecked_schedule import quick_schedule

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

# Registers of sums of two times two, of left and of right sides.
_SUMS, _LEFT, _RIGHT = ((0, 1), (2, 3)), (4, 5), (6, 7)
_SQUARE = ROWS * WIDE


def convolve_by_tiles(func: tirx.PrimFunc, unit: VectorUnit, cores: int) -> tirx.PrimFunc:
    """The kernel by tile registers, shared among ``cores``.

    Parameters
    ----------
    func
        A convolution of words, with what was fused behind it; not scheduled.
    unit
        The vector unit.
    cores
        How many cores one call may use.

    Raises
    ------
    ValueError
        If it is no such convolution, or there are no such registers.
    """
    if not unit.amx:
        raise ValueError("there are no tile registers")
    sch = quick_schedule(func)
    tiles = AmxTiles.of(find_words(sch))
    if tiles.estimate > tiles.by_vectors:
        raise ValueError("turning its words takes longer than vectors take for its products")
    written = _body(sch, tiles, unit, cores)
    staged = quick_schedule(written)
    schedule_stages(staged, cores)
    return use_bfloat16_pairs(staged.mod["main"])


def _body(sch: s_tir.Schedule, tiles: AmxTiles, unit: VectorUnit, cores: int) -> tirx.PrimFunc:
    """The stages as they are, and one block for sums and what follows them."""
    func, conv = sch.mod["main"], tiles.conv
    root = func.body.block
    stages = list(root.body.seq)[:-2] if isinstance(root.body, tirx.SeqStmt) else []
    own = sch.get(find_role(sch, ACCUMULATE)).writes[0].source
    outputs = [conv.results.last.writes[0].source]
    inputs = [p for p in func.params if not any(p.same_as(each) for each in outputs)]
    reads, writes = map(whole_region, (conv.words, *inputs)), map(whole_region, outputs)
    statements = [turn_words(tiles, cores), *_ordered(tiles, unit, cores)]
    block = s_tir.SBlock(
        [], list(reads), list(writes), "tiles", with_functions(_functions(tiles), statements),
        alloc_buffers=[tiles.turned],
    )  # fmt: skip
    realize = s_tir.SBlockRealize([], tirx.const(True, "bool"), block)
    buffers = [b for b in root.alloc_buffers if not b.same_as(own)]
    whole_body = tirx.SeqStmt([*stages, realize]) if stages else realize
    around = s_tir.SBlock([], [], [], "root", whole_body, alloc_buffers=buffers)
    body = s_tir.SBlockRealize([], tirx.const(True, "bool"), around)
    return tirx.PrimFunc(list(func.params), body, func.ret_type, func.attrs, func.span)


def _sizes(tiles: AmxTiles) -> list[tuple[int, int]]:
    """Rows, and bytes of a row, of all registers."""
    conv = tiles.conv
    sums, left = (conv.m, conv.n * WORD), (conv.m, conv.k * WORD)
    right = (conv.k, conv.n * WORD)
    return [*[sums] * 4, *[left] * len(_LEFT), *[right] * len(_RIGHT)]


def _functions(tiles: AmxTiles) -> list[str]:
    kind, (points, channels) = tiles.conv.instruction, tiles.pairs
    used = [
        (kind, _SUMS[a][b], _LEFT[a], _RIGHT[b]) for a in range(points) for b in range(channels)
    ]
    return tile_functions([_sizes(tiles)], used)


def _ordered(tiles: AmxTiles, unit: VectorUnit, cores: int) -> list[tirx.Stmt]:
    """The loops over pairs of registers: channels inside where all weights are near."""
    conv, images = tiles.conv, tiles.conv.results.images
    points, channels = (-(-of // size) for of, size in tiles.counts)
    near = WORD * math.prod(extents_of(conv.weights)) <= unit.l2 // 2
    first, second = (points, channels) if near else (channels, points)
    begin, end = configure_tiles(_sizes(tiles)), release_tiles()

    def pair(g: Expr, one: Expr, other: Expr) -> tirx.Stmt:
        m, c = (one, other) if near else (other, one)
        (of, some), (columns, count) = tiles.counts
        then = begin_of(tirx.min(c + 1, whole(channels - 1)), count, columns)
        comes = (
            NextWeights(tiles, then, one, 1) if near else NextWeights(tiles, then, other, points)
        )
        return _multiplied(tiles, g, begin_of(m, some, of), begin_of(c, count, columns), comes)

    def row(g: Expr, one: Expr) -> tirx.Stmt:
        return loop("inner", second, lambda other: pair(g, one, other))

    if cores == 1 or tiles.cycles < WORTH_SHARING:
        return [begin, loop("image", images, lambda g: loop(
            "outer", first, lambda one: row(g, one)
        )), end]  # fmt: skip
    if images * first >= GRAINS * cores:
        return [loop("piece", images * first, lambda piece: [
            begin, row(piece // first, piece % first), end
        ], PARALLEL)]  # fmt: skip
    return [loop("piece", images * first * second, lambda piece: [
        begin, pair(piece // (first * second), piece // second % first, piece % second), end
    ], PARALLEL)]  # fmt: skip


@dataclass(frozen=True)
class NextWeights:
    """The weights of the channels that come next: asked for while these are multiplied.

    Attributes
    ----------
    tiles : the registers.
    channels : the first register of channels that comes next.
    turn, turns : how many points have been multiplied by these channels before, and how many pairs
        of registers of points will be: each asks for a part. With one turn, which takes all, the
        first points alone do: all weights are near from then on.
    """

    tiles: AmxTiles
    channels: Expr
    turn: Expr
    turns: int

    def asked(self, step: Sequence[Expr]) -> list[tirx.Stmt]:
        """What to ask for with a step of the window: its rows, or some of them."""
        conv, count = self.tiles.conv, -(-self.tiles.conv.k // self.turns)
        (word, *window), columns = step, self.tiles.pairs[1] * conv.n
        lines = []
        for row in range(count):
            for column in range(0, columns, LINE // WORD):
                block, first = self.tiles.column(self.channels + column // conv.n)
                at = word + (row if self.turns == 1 else self.turn * count + row)
                lines.append(prefetch_line(conv.weights, [block, at, *window, first], OUTER))
        if self.turns == 1:
            return [when(self.turn == 0, lines)]
        return lines if count * self.turns == conv.k else [when(self.turn * count < conv.k, lines)]


def _multiplied(tiles: AmxTiles, g: Expr, m: Expr, j: Expr, comes: NextWeights) -> tirx.Stmt:
    """Some registers of sums, from their first product to the kernel's results."""
    conv, (points, channels) = tiles.conv, tiles.pairs
    rows, columns = conv.window
    used = [(a, b) for a in range(points) for b in range(channels)]
    kept = tensor("kept", [4 * _SQUARE], _type(conv), scope="local")

    def products(r: Expr, s: Expr, q: Expr) -> list[tirx.Stmt]:
        step = (q * conv.k, r, s)
        made = comes.asked(step)
        made += [_load_left(tiles, _LEFT[a], g, m + a, j, step) for a in range(points)]
        for b in range(channels):
            made.append(_load_right(tiles, _RIGHT[b], j + b, step))
            made += [
                dot_tiles(conv.instruction, _SUMS[a][b], _LEFT[a], _RIGHT[b]) for a in range(points)
            ]
        return made

    body = [
        *(zero_tile(_SUMS[a][b]) for a, b in used),
        # Words outside: the weights of some are one piece of memory, and points are near.
        loop("q", conv.depth // conv.k, lambda q: loop("r", rows, lambda r: loop(
            "s", columns, lambda s: products(r, s, q)
        ))),
        *(store_tile(_SUMS[a][b], kept, [whole((channels * a + b) * _SQUARE)], WIDE * WORD)
          for a, b in used),
        loop("register", len(used), lambda i: _results(
            tiles, kept, i, (g, m + i // channels, j + i % channels)
        )),
    ]  # fmt: skip
    return make_block("registers", body, [kept])


def _type(conv: WordConvolution) -> str:
    return str(conv.results.sums.dtype)


def _load_left(
    tiles: AmxTiles, register: int, g: Expr, m: Expr, j: Expr, step: Sequence[Expr]
) -> tirx.Stmt:
    """The words of a register's points at a step of the window."""
    conv, (row, column) = tiles.conv, tiles.first_point(m)
    at = {0: g, 1: tiles.column(j)[0], 2: row, 3: column}
    word, point = conv.place(at, step)
    place = (g * conv.points + point) * tiles.apart + word
    return load_tile(register, tiles.turned, [place], tiles.apart * WORD)


def _load_right(tiles: AmxTiles, register: int, j: Expr, step: Sequence[Expr]) -> tirx.Stmt:
    """The weights of a register's channels at a step of the window."""
    conv, (block, first) = tiles.conv, tiles.column(j)
    rows, columns = conv.window
    stride = rows * columns * conv.block * WORD
    return load_tile(register, conv.weights, [block, *step, first], stride)


def _results(
    tiles: AmxTiles, kept: tirx.Var, which: Expr, place: tuple[Expr, Expr, Expr]
) -> tirx.Stmt:
    """A register of sums, points side by side, with what is fused behind."""
    conv, (g, m, j) = tiles.conv, place
    square = tensor("square", [_SQUARE], _type(conv), scope="local")
    code = Straight()
    nothing = broadcast(tirx.const(0, _type(conv)), WIDE)
    lines = [
        code.let(load(kept, ramp(which * _SQUARE + i * WIDE, WIDE))) if i < conv.m
        else nothing
        for i in range(ROWS)
    ]  # fmt: skip
    for i, line in enumerate(transpose(code, lines)[: conv.n]):
        code.add(store(square, [ramp(whole(i * WIDE), WIDE)], line))
    row, column = tiles.first_point(m)
    first = row * conv.rows[1] + column
    real, out = conv.results.results[1], j * conv.n
    count = conv.n if real % conv.n == 0 else tirx.min(whole(conv.n), whole(real) - out)
    code.add(loop("channel", count, lambda c: loop("lane", conv.m, lambda i: conv.results.result(
        g, out + c, first + i, load(square, c * WIDE + i)
    ), VECTORIZED)))  # fmt: skip
    return make_block("results", code.statements, [square])
