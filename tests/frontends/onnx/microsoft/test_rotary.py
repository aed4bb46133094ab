"""RotaryEmbedding beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.contributed import Draw, assert_same, one_node

BATCH, PLACES, HEADS, SIZE = 2, 5, 3, 8


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("by_heads", [False, True])
@pytest.mark.parametrize("half", [SIZE // 2, 2])
def test_pairs_are_turned(interleaved: int, by_heads: bool, half: int) -> None:
    d = Draw()
    shape = (BATCH, HEADS, PLACES, SIZE) if by_heads else (BATCH, PLACES, HEADS * SIZE)
    tables = [d.normal(20, half) for _ in range(2)]
    partial = {"num_heads": HEADS, "rotary_embedding_dim": 2 * half} if half < SIZE // 2 else {}
    for positions in (d.below(20, BATCH, PLACES, dtype=np.int64), np.array([2])):
        operands = [d.normal(*shape), positions, *tables]
        assert_same(*one_node("RotaryEmbedding", operands, interleaved=interleaved, **partial))
