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
        for some output channels         (`products`)
            for some input channels
                the weights: U
                36 products of matrices: M, or what is added to it
            for L of them                (`output_transform`)
                each tile: 16 vectors of results
                transposed: L pixels of a channel side by side; what is fused behind; stored

    V, U and M stay in the second-level cache, or V is read from beyond it, in its order. The
    transforms and transpositions work on vectors of channels, whatever the width of an image.

Constraints
    Both numbers of channels are multiples of L, since no vector is half empty; the images have L
    pixels at least. `convolution_of` says what else is no kernel for this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import s_tir, tirx

from tvm_hetero.kernels.convolution.winograd.input_transform import transform_data
from tvm_hetero.kernels.convolution.winograd.match import Convolution, convolution_of
from tvm_hetero.kernels.convolution.winograd.output_transform import store_results
from tvm_hetero.kernels.convolution.winograd.pixels import Matrices, block
from tvm_hetero.kernels.convolution.winograd.products import products
from tvm_hetero.kernels.convolution.winograd.sizes import (
    WinogradPlace,
    WinogradSizes,
    estimate,
    sizes_of,
)
from tvm_hetero.kernels.cpu.compilation import WRITTEN_OUT
from tvm_hetero.kernels.tir.statements import PARALLEL, SERIAL, loop, sequence

if TYPE_CHECKING:
    from typing import Any

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

# The rule's name.
WINOGRAD = "winograd"
# Below that share of plain sums' time the gain is clear: it need not be measured.
CLEAR = 0.5


def winograd(func: tirx.PrimFunc, unit: VectorUnit, cores: int) -> tirx.PrimFunc:
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
    sizes = sizes_of(conv, unit)
    data = Matrices.of("V", sizes.padded, sizes.lanes, conv.channels // sizes.lanes)
    kind = PARALLEL if cores > 1 else SERIAL
    body = loop("block", sizes.blocks, lambda b: _block(conv, sizes, data, b, kind))
    root = s_tir.SBlock([], [], [], "root", sequence(body), alloc_buffers=[data.buffer])
    realize = s_tir.SBlockRealize([], tirx.const(True, "bool"), root)
    made = tirx.PrimFunc(func.params, realize, func.ret_type, func.attrs, func.span)
    return made.with_attr(WRITTEN_OUT, True)


def share_of_plain(func: tirx.PrimFunc, unit: VectorUnit) -> float:
    """What the kernel by tiles should take, as a share of what plain sums take.

    Raises
    ------
    ValueError
        If there is none; see `winograd`.
    """
    conv = convolution_of(func)
    return estimate(conv, sizes_of(conv, unit), unit)


def _block(
    conv: Convolution, sizes: WinogradSizes, data: Matrices, number: Expr, kind: tirx.ForKind
) -> list[tirx.Stmt]:
    """One block of tiles."""
    place = sizes.place(number)
    return [
        loop(
            "channels", conv.channels // sizes.lanes,
            lambda c: transform_data(conv, sizes, data, place, c), kind,
        ),
        loop(
            "results", conv.packed_channels // sizes.together,
            lambda o: _results(conv, sizes, data, place, o * sizes.together), kind,
        ),
    ]  # fmt: skip


def _results(
    conv: Convolution, sizes: WinogradSizes, data: Matrices, place: WinogradPlace, first: Expr
) -> tirx.Stmt:
    """The results of a block for `together` output channels from ``first`` on."""
    sums = Matrices.of("M", sizes.padded, sizes.together)
    return block(
        "winograd_channels",
        [products(conv, sizes, data, sums, first), store_results(conv, sizes, sums, place, first)],
        [sums.buffer],
    )
