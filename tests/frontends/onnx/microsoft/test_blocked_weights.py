"""Weights of a few bits beside ONNX Runtime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.frontends.onnx.contributed import Draw, assert_same, one_node, rewritten
from tvm_hetero.errors import ModelError

ROWS, BLOCK = 5, 32


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes in bytes, the first in the lowest bits."""
    count = 8 // bits
    apart = codes.reshape(*codes.shape[:-1], -1, count).astype(np.uint8)
    shifts = (np.arange(count) * bits).astype(np.uint8)
    return np.bitwise_or.reduce(apart << shifts, axis=-1).astype(np.uint8)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("depth", [64, 40])
@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
def test_products_with_packed_weights(bits: int, depth: int, zeros: str) -> None:
    if (bits, zeros) == (8, "float"):
        pytest.skip("ONNX Runtime has no such kernel")
    d, blocks = Draw(), -(-depth // BLOCK)
    weights = packed(d.below(1 << bits, ROWS, blocks, BLOCK), bits)
    width = -(-blocks * bits // 8) * 8 // bits
    given = {
        "none": None,
        "packed": packed(d.below(1 << bits, ROWS, width), bits),
        "float": d.normal(ROWS, blocks),
    }[zeros]
    operands = [d.normal(2, 3, depth), weights, d.scales(ROWS, blocks), given, None, d.normal(ROWS)]
    sizes = {"K": depth, "N": ROWS, "bits": bits, "block_size": BLOCK}
    assert_same(
        *one_node("MatMulNBits", operands, constants=(1, 2, 3, 5), **sizes), rtol=1e-4, atol=1e-3
    )


def test_a_group_index_is_refused() -> None:
    d = Draw()
    operands = [d.normal(3, 32), d.codes(np.uint8, ROWS, 1, 16), d.scales(ROWS), None]
    index = np.zeros(32, np.int32)
    model, _ = one_node(
        "MatMulNBits", [*operands, index], constants=(1, 2, 4), K=32, N=ROWS, block_size=32
    )
    with pytest.raises(ModelError, match="has a group index"):
        rewritten(model)


@pytest.mark.parametrize("kind", ["packed", "bytes", "int4", "uint4"])
@pytest.mark.parametrize("with_zeros", [False, True])
def test_tables_are_looked_up_as_numbers(kind: str, with_zeros: bool) -> None:
    d = Draw()
    low, high = (-8, 8) if kind == "int4" else (0, 256 if kind == "bytes" else 16)
    codes, zeros = (d.generator.integers(low, high, (10, n)) for n in (64, 4))
    if kind == "packed":
        table, zero = packed(codes, 4), packed(zeros, 4)
    else:
        dtype = {"bytes": np.uint8, "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}[kind]
        table, zero = (each.astype(np.int16).astype(dtype) for each in (codes, zeros))
    operands = [table, d.below(10, 2, 3), d.scales(10, 4), zero if with_zeros else None]
    given = {"bits": 8 if kind == "bytes" else 4, "block_size": 16, "quantize_axis": 1}
    assert_same(*one_node("GatherBlockQuantized", operands, constants=(0, 2, 3), **given))


@pytest.mark.parametrize("kind", [0, 1])
def test_products_with_weights_of_a_table_of_values(kind: int) -> None:
    d, depth, rows, block = Draw(), 64, 6, 16
    operands = [
        d.normal(3, depth),
        d.codes(np.uint8, rows * depth // 2),
        d.scales(rows * depth // block),
    ]
    sizes = {"K": depth, "N": rows, "block_size": block, "quant_type": kind}
    assert_same(*one_node("MatMulBnb4", operands, constants=(1, 2), **sizes), rtol=1e-4)


def test_an_axis_of_blocks_that_is_not_there_is_refused() -> None:
    d = Draw()
    table = d.generator.integers(0, 256, (10, 64)).astype(np.uint8)
    operands = [table, d.below(10, 2, 3), d.scales(10, 4)]
    given = {"bits": 8, "block_size": 16, "quantize_axis": 3}
    model, _ = one_node("GatherBlockQuantized", operands, constants=(0, 2), **given)
    with pytest.raises(ModelError, match="names axis 3, and there are 2 dimensions"):
        rewritten(model)
