"""How many images a block of weights is used for, by the bytes that come from beyond the cache."""

from __future__ import annotations

import dataclasses

import pytest

from tests.kernels.helpers import AVX512
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.cpu.weights_once import choose_group


@pytest.mark.parametrize(
    ("images", "blocks", "each", "weights", "expected"),
    [
        (8, 16, 1000, 200_000, 8),  # all images stay
        (8, 16, 200_000, 6_000_000, 2),  # two of them do
        (8, 16, 400_000, 2_000_000, 1),  # one: to read the images for each block costs more
        (8, 16, 4_000_000, 2_000_000, 8),  # none: they are read for each block in any case
        (1, 16, 1000, 2_000_000, 1),
    ],
)
def test_how_many_images_meet_a_block_of_weights(
    images: int, blocks: int, each: int, weights: int, expected: int
) -> None:
    unit = dataclasses.replace(vector_unit(AVX512), l2=1_000_000)
    assert choose_group(images, blocks, each, weights, unit) == expected
