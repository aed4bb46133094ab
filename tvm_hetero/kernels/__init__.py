"""Kernels: how operators with constant weights are computed, and how kernels are scheduled.

``LowerToTasks`` (tvm_hetero.passes.lower_to_tasks) builds kernels with `conv2d`, `dense` and
`arithmetic`; `schedule_kernel` schedules each for the target on which it runs.

    facts       what a target's vector unit is          packing   how weights are laid out
    tiling      which register tile, at what cost       roles     marks on blocks
    conv2d      convolutions as packed kernels          dense     products with constant weights
    conv2d_shape    extents of a convolution
    matmul      which kernel a product becomes          batch_matmul  products of two variables
    product     what a product computes                 gemm      its schedule
    dot         single rows times stored keys           prefetch  asking for weights ahead
    product_tiles   register tiles of products
    packed      the schedule of packed kernels          generic   the schedule of everything else
    depthwise   convolutions without channels to sum    overlap   last tiles that begin earlier
    gpu         the schedule for GPUs                   rules     which there are for CPUs
    legalize    which operators are ours to build       select    which one takes a kernel
    constants   operators on constants, in numpy        arithmetic  cheaper high-level operators
    pool        poolings, rows then columns             pool_schedule  their schedule
    rows        softmax, norms, sums, row by row        softmax   of any length
    transpose   transpositions in tiles                 lrn       windows over channels
    batched     several elements in one call            batched_schedule  their schedule:
    stacked     one nest for all elements               stacked_rows      elements as rows
    nests       unscheduled statements, taken apart     pointers          each element's tensors
    weights_once   images or blocks of weights outside  prefetch_blocks   the next block's weights
    prefetch_channels  data of input channels to come   compilation  small buffers on the stack
    joins       which kernels only put tensors one behind the other
    attention   over a cache that the kernel writes     attention_parts   what its kernels share
    attention_cpu   its loops: scores, powers, values   attention_block   how they are divided
    attention_gpu   its threads                         folding   sums across lanes of many vectors
    groupwise   weights of 8 or 4 bits                  groupwise_groups  what a group shares
    groupwise_schedule   their schedule in floats       statements        loops written by hand
    groupwise_whole      in whole numbers of 16 bits    groupwise_numbers the left side of that
    groupwise_tile       its innermost loops            groupwise_found   which product it is
    groupwise_amx        by tile registers              groupwise_bytes   its left side
    written_products     products whose sums are statements written by hand
    product_bfloat16     of bfloat16 by constants of bfloat16: what their rules share
    product_pairs        two steps to an instruction    attention_pairs   for shared keys
    product_amx          by tile registers              product_amx_tile  sums, constants in turn
    attention_amx        scores and values by them      amx               Intel's tile registers
    llvm_functions       what LLVM can be told and TVM cannot: ordered loads, pairs of bfloat16
    gather, scatter     which count from the end        from_the_end      how ONNX asks for that
    index_checks        indices out of bounds are errors   index_masks    on GPUs: masked
    indirect_accesses   what is read or written where data tell    in_bounds   if that is no matter
    math        exp, erf ... without library calls      parallel  loops shared among cores
    blocks      what a kernel's blocks read and write
    winograd    convolutions of 3x3 windows with a quarter of the products
    winograd_tiles, _data, _products, _results   its transforms, and where they are used
    winograd_sizes, _convolution, _pixels        how it is divided, what it takes, what parts share
    straight    code without loops, transpositions of vectors
    implementations   how a kernel says that it is not to be scheduled by its rule
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm import tirx
    from tvm.target import Target

__all__ = ["schedule_kernel"]


def schedule_kernel(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """The kernel, scheduled for ``target``; see `select.schedule_kernel`."""
    from tvm_hetero.kernels.select import schedule_kernel as schedule

    return schedule(func, target)
