"""The schedule of what stands before the sums of a convolution: padding, sorting, words."""

from __future__ import annotations

from tvm import s_tir

from tvm_hetero.kernels.tir.block_roles import GATHER, PAD, find_role
from tvm_hetero.kernels.tir.multicore import share_longest

# Dimensions of images, and of columns that are sorted: [image, channel, row, phase, column].
_IMAGES_RANK, _PHASES_RANK = 4, 5


def schedule_stages(sch: s_tir.Schedule, cores: int) -> None:
    """Schedule what stands before the accumulation, in place.

    Copy without a condition for each value: fill a channel with zeros, then its inside.

    Where columns are sorted by phase, a channel is sorted as soon as it is padded, from the cache,
    and its phases side by side, so that LLVM loads whole vectors and takes them apart.
    """
    pad, gather = find_role(sch, PAD), find_role(sch, GATHER)
    if gather is not None:
        if _copies_images(sch.get(gather)):
            sch.fuse(*sch.get_loops(gather)[2:])  # vectors beyond the end of a row
        share_longest(sch, sch.get_loops(gather)[:2], cores)
    if gather is not None and len(sch.get_loops(gather)) == _PHASES_RANK:
        *_, channel, _, phase, column = sch.get_loops(gather)
        if pad is not None:
            sch.compute_at(pad, channel, preserve_unit_loops=True)
            sch.decompose_padding(pad, sch.get_loops(pad)[-2])
        sch.reorder(column, phase)
        sch.unroll(phase)
    elif pad is not None:
        loops = sch.get_loops(pad)
        sch.decompose_padding(pad, loops[min(2, len(loops) - 1)])
        share_longest(sch, sch.get_loops(pad)[:2], cores)


def _copies_images(block: s_tir.SBlock) -> bool:
    """Whether a block of ``[image, channel, row, column]`` reads images as it writes them."""
    if len(block.iter_vars) != _IMAGES_RANK:
        return False
    place = list(block.iter_vars[2:])
    extents = [int(v.dom.extent) for v in place]
    return all(
        [int(e) for e in list(region.source.ty.shape)[-2:]] == extents
        and all(r.min.same_as(v.var) for r, v in zip(list(region.region)[-2:], place, strict=True))
        for region in block.reads
    )
