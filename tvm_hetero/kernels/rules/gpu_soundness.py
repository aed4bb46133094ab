"""Whether a schedule that a rule of TVM made for a GPU computes what the kernel says.

Two faults of TVM 0.27 were found on a GPU; a schedule that shows one is not used.

Sums
    What follows a reduction is sometimes computed inside of it: a bias is added once with each
    term, partial sums are cut off at zero. In ``y[i] = max(y[i] + a * b, 0)`` more is done with a
    term than to add it.
Stores
    A product's columns are filled up to a tile. Where its result has batch and column in one index,
    ``c = batch * 8 + column``, what fills up a tile of one batch is stored over the columns of the
    next, as only ``c`` is compared with a bound: which of the two is written last is chance. So of
    the variables of an index, each has to reach less far than a step of the next.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tvm import s_tir, sym, tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.tir.block_roles import blocks_of


def is_sound(func: tirx.PrimFunc) -> bool:
    """Whether neither fault is in a scheduled function."""
    sch = s_tir.Schedule(func)
    blocks = list(map(sch.get, blocks_of(sch)))
    return all(adds_only(block) and stores_apart(block) for block in blocks)


def reduces(block: s_tir.SBlock) -> bool:
    """Whether a block reduces; over one term it has no axis for it, but a beginning."""
    return block.init is not None or any(
        each.iter_type == tirx.IterVar.CommReduce for each in block.iter_vars
    )


def adds_only(block: s_tir.SBlock) -> bool:
    """Whether a reduction to one value only adds a term to it, or takes the greater of both."""
    store = block.body
    if not reduces(block) or not isinstance(store, tirx.BufferStore):
        return True
    operands = (getattr(store.value, "a", None), getattr(store.value, "b", None))
    before = [each for each in operands if isinstance(each, TensorLoad)]
    return any(each.source.same_as(store.buffer) for each in before)


def stores_apart(block: s_tir.SBlock) -> bool:
    """Whether a block's values are stored at places of their own, as far as can be seen."""
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        return True
    extents = {each.var: int(each.dom.extent) for each in block.iter_vars}
    return all(_is_apart(index, extents) for index in store.indices)


def _is_apart(index: Any, extents: dict[tirx.Var, int]) -> bool:
    """Whether no two values of the variables of an index give the same one.

    Of one variable alone quotient and remainder may be two indices, which are apart together.
    """
    used = tirx.analysis.undefined_vars(tirx.Evaluate(index), [])
    variables = [var for var in used if var in extents]
    if len(variables) < 2:
        return True
    steps = list(sym.detect_linear_equation(index, variables))
    if not steps:
        return False
    digits = sorted((int(step), extents[var]) for step, var in zip(steps, variables, strict=False))
    return all(step * extent <= above for (step, extent), (above, _) in pairwise(digits))
