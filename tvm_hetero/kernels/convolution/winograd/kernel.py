"""Convolutions with 3x3 windows by Winograd's F(4x4, 3x3): a quarter of the products.

Problem
    A convolution of 3x3 windows that are one apart takes 9 products for each result and input
    channel. By tiles of 4x4 results (`transforms`) it takes 36 for 16 results, 2.25 each. The
    price: data, weights and results have to be transformed, and sums are rounded otherwise.
    Errors are several times those of plain sums (`python -m benchmarks.tiles` prints both).

Notation
    C, O input and output channels; T tiles of 4x4 results, of `images` images and `rows` rows of
    tiles of each; L lanes of a vector. For each of the 36 elements e of a tile

        M[e, t, o] = sum over c of V[e, t, c] U[e, c, o]

    V transformed data, U transformed weights, M transformed results.

How it is done
    The kernel is that of `conv2d`: same tensors, same packed weights ``W[o // B, c, 3, 3, o % B]``.
    Nothing is transformed beforehand, so devices that compute otherwise share the weights, and what
    is read from memory is nine values for each pair of channels, not 36.

    for each block of tiles              (`sizes`)
        for L input channels each        (`input_transform`)
            the image, transposed: L channels of a pixel side by side, zeros around
            each tile: 36 vectors of V
        for some output channels         (`multiply_tiles`)
            for some input channels
                the weights: U
                36 products of matrices: M, or what is added to it
            for L of them                (`output_transform`)
                each tile: 16 vectors of results
                transposed: L pixels of a channel side by side; what is fused behind; stored

    Cores share the blocks of tiles and the output channels (`cores`).

    V, U and M stay in the second-level cache, or V is read from beyond it, in its order. The
    transforms and transpositions work on vectors of channels, whatever the width of an image.

Constraints
    Both numbers of channels are multiples of L, since no vector is half empty; the images have L
    pixels at least. `convolution_of` says what else is no kernel for this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import s_tir, tirx

from tvm_hetero.kernels.convolution.winograd.cores import shared_sizes
from tvm_hetero.kernels.convolution.winograd.input_transform import transform_data
from tvm_hetero.kernels.convolution.winograd.match import Convolution, convolution_of
from tvm_hetero.kernels.convolution.winograd.output_transform import store_results
from tvm_hetero.kernels.convolution.winograd.pixels import Matrices, make_block
from tvm_hetero.kernels.convolution.winograd.products import multiply_tiles
from tvm_hetero.kernels.convolution.winograd.sizes import (
    WinogradPlace,
    WinogradSizes,
    estimate_ratio,
    sizes_of,
)
from tvm_hetero.kernels.cpu.compilation import WRITTEN_OUT
from tvm_hetero.kernels.tir.statements import PARALLEL, loop, sequence, whole

if TYPE_CHECKING:
    from typing import Any

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

# The rule's name.
WINOGRAD = "winograd"
# Below that share of plain sums' time the gain is clear: it need not be measured.
CLEAR = 0.5


def make_winograd(func: tirx.PrimFunc, unit: VectorUnit, cores: int) -> tirx.PrimFunc:
    """The kernel by tiles of 4x4 results, shared among ``cores``.

    Parameters
    ----------
    func
        A convolution that `conv2d` built, with what was fused behind it; not scheduled.
    unit
        The vector unit.
    cores
        How many cores one call may use.

    Raises
    ------
    ValueError
        If it is no convolution of that kind (see the file's text).
    """
    conv = convolution_of(func)
    sizes, parts = shared_sizes(conv, unit, cores) if cores > 1 else (sizes_of(conv, unit), 1)
    data = Matrices.of("V", sizes.padded, sizes.lanes, conv.channels // sizes.lanes)
    if sizes.blocks * parts == 1 or cores == 1:
        body = loop("block", sizes.blocks, lambda b: _block(conv, sizes, data, b, whole(0), 1))
        root = s_tir.SBlock([], [], [], "root", sequence(body), alloc_buffers=[data.buffer])
    else:
        # The parts of a core follow one another: it has written what it reads in the next kernel.
        body = loop("piece", sizes.blocks * parts, lambda piece: make_block(
            "winograd_piece",
            _block(conv, sizes, data, piece % sizes.blocks, piece // sizes.blocks, parts),
            [data.buffer],
        ), PARALLEL)  # fmt: skip
        root = s_tir.SBlock([], [], [], "root", sequence(body))
    realize = s_tir.SBlockRealize([], tirx.const(True, "bool"), root)
    made = tirx.PrimFunc(func.params, realize, func.ret_type, func.attrs, func.span)
    return made.with_attr(WRITTEN_OUT, True)


def share_of_plain(func: tirx.PrimFunc, unit: VectorUnit) -> float:
    """What the kernel by tiles should take, as a share of what plain sums take.

    Raises
    ------
    ValueError
        If there is none; see `make_winograd`.
    """
    conv = convolution_of(func)
    return estimate_ratio(conv, sizes_of(conv, unit), unit)


def _block(
    conv: Convolution, sizes: WinogradSizes, data: Matrices, number: Expr, part: Expr, parts: int
) -> list[tirx.Stmt]:
    """One block of tiles, for a part of the output channels."""
    place = sizes.place(number)
    groups = conv.packed_channels // sizes.together // parts
    return [
        loop(
            "channels", conv.channels // sizes.lanes,
            lambda c: transform_data(conv, sizes, data, place, c),
        ),
        loop(
            "results", groups,
            lambda o: _results(conv, sizes, data, place, (part * groups + o) * sizes.together),
        ),
    ]  # fmt: skip


def _results(
    conv: Convolution, sizes: WinogradSizes, data: Matrices, place: WinogradPlace, first: Expr
) -> tirx.Stmt:
    """The results of a block for `together` output channels from ``first`` on."""
    sums = Matrices.of("M", sizes.padded, sizes.together)
    return make_block(
        "winograd_channels",
        [
            multiply_tiles(conv, sizes, data, sums, first),
            store_results(conv, sizes, sums, place, first),
        ],
        [sums.buffer],
    )
