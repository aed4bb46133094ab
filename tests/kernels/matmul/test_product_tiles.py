"""Register tiles of matrix products: what must hold for each, and the choices that matter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.kernels.cpu.vector_unit import AVX2, AVX512, NEON, SSE
from tvm_hetero.kernels.matmul.product_tiles import Extents, choose_product_layout, product_tile

UNITS = (AVX512, AVX2, SSE)


@given(
    rows=st.integers(1, 300),
    columns=st.integers(1, 5000),
    depth=st.integers(1, 5000),
    units=st.sampled_from([(AVX512,), (AVX2,), (SSE,), (NEON,), (AVX512, AVX2), UNITS]),
)
def test_every_product_has_a_tile_on_every_target(rows, columns, depth, units):
    extents = Extents(rows, columns, depth)
    layout = choose_product_layout(extents, units)
    assert layout is not None
    assert rows <= layout.points < rows + 16
    for unit in units:
        tile = product_tile(layout.block, layout.points, extents, unit)
        assert tile is not None
        assert layout.points % tile.rows == 0
        assert layout.block % (tile.vectors * unit.lanes) == 0
        spilled = 4 * columns * depth > unit.l2 and rows <= 8  # it waits for memory in any case
        operands = 0 if spilled else tile.vectors
        assert tile.vectors * tile.rows + operands <= unit.registers
        assert tile.cycles > 0
    widest = product_tile(layout.block, layout.points, extents, units[0])
    assert widest is not None
    assert layout.block == widest.vectors * units[0].lanes  # its panel is one piece of memory


@pytest.mark.parametrize("rows", [12, 14, 15, 16])
def test_few_rows_times_large_weights_are_one_tall_tile(rows):
    """Every weight is read once, while it comes from memory."""
    extents = Extents(rows, 4096, 4096)
    layout = choose_product_layout(extents, (AVX512,))
    assert layout is not None
    tile = product_tile(layout.block, layout.points, extents, AVX512)
    assert tile is not None
    assert tile.rows == layout.points
    assert layout.tall


def test_no_sum_spills_where_that_costs_more_than_it_gains():
    extents, no = Extents(8, 4096, 4096), replace(AVX512, spills=False)
    tiles = {unit.spills: product_tile(64, 8, extents, unit) for unit in (AVX512, no)}
    sums = {spills: tile.vectors * tile.rows for spills, tile in tiles.items() if tile}
    assert sums == {True: AVX512.registers, False: AVX512.registers // 2}


@pytest.mark.parametrize("unit", [AVX512, AVX2])
@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_a_few_rows_take_whole_blocks_of_weights_from_memory_where_they_can(rows, unit):
    """The block is that of one row, as it is in kernels of several elements."""
    layout = choose_product_layout(Extents(1, 4096, 4096), (AVX512, AVX2))
    assert layout is not None
    tile = product_tile(layout.block, rows, Extents(rows, 4096, 4096), unit)
    assert tile is not None
    whole = tile.vectors * unit.lanes == layout.block
    assert whole == (rows * layout.block <= unit.registers * unit.lanes)
    assert tile.rows == rows


@pytest.mark.parametrize("rows", [100, 128, 1024])
def test_many_rows_need_no_packing(rows):
    layout = choose_product_layout(Extents(rows, 3072, 768), (AVX512, AVX2))
    assert layout is not None
    assert not layout.tall


def test_one_row_has_several_accumulators():
    layout = choose_product_layout(Extents(1, 4096, 4096), (AVX512, AVX2))
    assert layout is not None
    assert layout.block == 4 * AVX512.lanes
