"""What a block of a kernel is for, written into the block itself.

Fusion renames blocks and drops function attributes, but a block's own annotations survive it:
rules put a role there when they build a kernel and find it again when they schedule it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import SBlockRV

ROLE = "tvm_hetero.role"
PAD = "pad"
GATHER = "gather"
ACCUMULATE = "accumulate"
UNPACK = "unpack"
LEFT = "left"
RIGHT = "right"
PRODUCT = "product"
PARTIAL = "partial"
SHARE = "share"
DOT = "dot"
HALVES = "halves"
TOTAL = "total"
# Annotations of the accumulation of a product: how many leading dimensions of the result are
# matrices, how many steps of the reduction share a scale (weights of few bits), and that both sides
# are bytes.
MATRICES = "tvm_hetero.matrices"
GROUP_ATTR = "tvm_hetero.group"
BYTES_ATTR = "tvm_hetero.bytes"
# Of an accumulation of words of bytes (`cpu.byte_dots.plain_dot`).
BYTES_DOT = "tvm_hetero.bytes_dot"
# Of an accumulation of words of two numbers of bfloat16 (`cpu.bfloat16_words.plain_dot`).
BFLOAT16_DOT = "tvm_hetero.bfloat16_dot"


def role(name: str) -> dict[str, str]:
    """The attribute of a ``te.compute`` that gives its block the role ``name``."""
    return {ROLE: name}


def blocks_of(sch: Schedule) -> list[SBlockRV]:
    """The blocks of the function, in program order."""
    return list(sch.get_child_blocks(sch.get_sblock("root")))


def role_of(sch: Schedule, block: SBlockRV) -> str | None:
    """The role of a block, or None."""
    value = sch.get(block).annotations.get(ROLE)
    return None if value is None else str(value)


def find_role(sch: Schedule, name: str) -> SBlockRV | None:
    """The first block with the role ``name``, or None."""
    return next((b for b in blocks_of(sch) if role_of(sch, b) == name), None)


def has_role_or_reduction(func: tirx.PrimFunc) -> bool:
    """Whether a block of a kernel has a role, or sums or takes a maximum over an axis."""
    blocks: list[SBlock] = []
    tvm_ffi.structural_walk(func.body, (SBlock, blocks.append))
    return any(
        block.annotations.get(ROLE) is not None
        or any(v.iter_type == tirx.IterVar.CommReduce for v in block.iter_vars)
        for block in blocks
    )
