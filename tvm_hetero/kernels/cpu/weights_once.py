"""The order of the loops over images and over blocks of weights, where weights fit no cache.

Problem
    ``n`` images (elements of a batch, matrices) of ``D`` bytes each meet ``B`` blocks of weights,
    ``W`` bytes in all. Images outside, all weights come from beyond the second-level cache for
    each image. Blocks outside, all images come for each block, unless they all stay there.

Answer
    ``c`` images at a time, all blocks for these, all of them for each block. From beyond the
    cache, of which half may be taken, come

        n / c W + (n D if c D <= half else B n D)   bytes

    and of the divisors of ``n`` the ``c`` for which that is least is taken, the largest of equal
    ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_hetero.kernels.tir.blocks import extent_of

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit


def weights_once(
    sch: Schedule, outer: list[LoopRV], data: int, weights: int, unit: VectorUnit
) -> list[LoopRV]:
    """Order the loops ``[image, block, ...]``, which follow one another directly.

    Parameters
    ----------
    sch
        The schedule.
    outer
        The loops.
    data, weights
        Bytes of all images, and of all blocks.
    unit
        The vector unit with its caches.

    Returns
    -------
    list of LoopRV
        The loops as they are now, from the outside; one more where images are grouped.
    """
    image, block, *rest = outer
    images = extent_of(sch, image)
    group = choose_group(images, extent_of(sch, block), data // images, weights, unit)
    if group == 1:
        return outer
    if group == images:
        sch.reorder(block, image)
        return [block, image, *rest]
    several, image = sch.split(image, [None, group])
    sch.reorder(several, block, image)
    return [several, block, image, *rest]


def choose_group(images: int, blocks: int, each: int, weights: int, unit: VectorUnit) -> int:
    """How many images a block of weights is used for before the next one."""

    def traffic(group: int) -> int:
        stay = group * each <= unit.l2 // 2
        return images // group * weights + (1 if stay else blocks) * images * each

    divisors = [c for c in range(1, images + 1) if images % c == 0]
    return min(divisors, key=lambda c: (traffic(c), -c))
