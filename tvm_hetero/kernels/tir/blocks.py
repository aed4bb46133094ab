"""What the blocks of a kernel compute: reductions, and which elements they read and write."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.s_tir.schedule import ScheduleError
from tvm.sym import Analyzer

from tvm_hetero.kernels.tir.block_roles import blocks_of

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV, SBlockRV

_MOST_READS = 100


def is_reduction(sch: Schedule, block: SBlockRV) -> bool:
    """True where the block sums, or takes a maximum, over an axis."""
    return any(v.iter_type == tirx.IterVar.CommReduce for v in sch.get(block).iter_vars)


def extent_of(sch: Schedule, loop: LoopRV) -> int:
    """How many steps a loop takes."""
    return int(sch.get(loop).extent)


def index_map(rank: int, function: Callable[..., list[Any]]) -> tirx.IndexMap:
    """A map of ``rank`` indices, each an argument of the function."""
    return tirx.IndexMap.from_func(function, ndim=rank, index_dtype="int64")


def inline_epilogue(sch: Schedule, block: SBlockRV) -> SBlockRV:
    """Inline the chain that reads the block into its last member, and return that."""
    after = sch.get_consumers(block)
    while sch.get_consumers(after[0]):
        sch.compute_inline(after[0])
        after = sch.get_consumers(block)
    _inline_sides(sch, block, after[0])
    return after[0]


def _inline_sides(sch: Schedule, block: SBlockRV, last: SBlockRV) -> None:
    """Inline what ``last`` reads beside the block: scalars of a zero point, for example.

    What cannot be inlined stays.
    """
    kept = {sch.get(block).name_hint}
    while sides := [p for p in sch.get_producers(last) if sch.get(p).name_hint not in kept]:
        try:
            sch.compute_inline(sides[0])
        except ScheduleError:
            kept.add(sch.get(sides[0]).name_hint)


def bindings(sch: Schedule, block: SBlockRV) -> list[tirx.PrimExpr]:
    """What each dimension of the block is computed from: expressions of its loops' variables."""
    node, found = sch.get(block), []

    def visit(realize: SBlockRealize) -> None:
        if realize.block.same_as(node):
            found.append(list(realize.iter_values))

    tvm_ffi.structural_walk(sch.mod["main"].body, (SBlockRealize, visit))
    return found[0]


def position(sch: Schedule, loops: Sequence[LoopRV], loop: LoopRV) -> int:
    """Which of the loops one of them is."""
    wanted = sch.get(loop).loop_var
    return next(i for i, one in enumerate(loops) if sch.get(one).loop_var.same_as(wanted))


def substitute(variables: list[tirx.Var], of: list[Any], values: list[Any]) -> list[Any]:
    """Expressions of variables, with values for these."""
    return list(tirx.IndexMap(variables, of, None).map_indices(values))


def accesses(block: tirx.SBlock) -> list[tuple[list[tirx.PrimExpr], list[int]]]:
    """Indices and the buffer's shape of each load and store in the body of a block.

    Indices are simplified for the extents of the block: what is left of reshapes that were
    inlined are sums of quotients, most of which are zero.
    """
    found: list[tuple[list[tirx.PrimExpr], list[int]]] = []
    analyzer = Analyzer()
    for v in block.iter_vars:
        if int(v.dom.extent) > 1:
            analyzer.bind(v.var, v.dom)

    def add(indices: Sequence[tirx.PrimExpr], shape: Sequence[Any]) -> None:
        found.append(([analyzer.simplify(i) for i in indices], [int(e) for e in shape]))

    def load(node: TensorLoad) -> None:
        add(node.indices, node.source.shape)

    def store(node: tirx.BufferStore) -> None:
        add(node.indices, node.buffer.shape)

    tvm_ffi.structural_walk(block.body, [(TensorLoad, load), (tirx.BufferStore, store)])
    return found


def uses(expr: tirx.PrimExpr, var: tirx.Var) -> bool:
    """True where the expression mentions the variable."""
    hit = False

    def visit(node: tirx.Var) -> None:
        nonlocal hit
        hit = hit or node.same_as(var)

    tvm_ffi.structural_walk(expr, (tirx.Var, visit))
    return hit


def mask_value(value: tirx.PrimExpr, condition: tirx.PrimExpr) -> tirx.PrimExpr:
    """A float32 where the condition holds, else zero, whatever the value is.

    For values that are read from within bounds in any case. A ``Select`` of them will not do: TVM
    takes the clamps out of the indices, which the condition implies, and then has to branch
    around the load that may be out of bounds.
    """
    ones = tirx.Select(condition, tirx.const(-1, "int32"), tirx.const(0, "int32"))
    return tirx.reinterpret("float32", tirx.bitwise_and(tirx.reinterpret("int32", value), ones))


def is_copy(sch: Schedule, block: SBlockRV) -> bool:
    """True for a block that stores what it loads, or a cast of it."""
    value = getattr(sch.get(block).body, "value", None)
    while isinstance(value, tirx.Cast):
        value = value.value
    return isinstance(value, TensorLoad)


def is_padding(sch: Schedule, block: SBlockRV) -> bool:
    """True for a block that puts a border around its input."""
    return "pad" in str(sch.get(block).name_hint)


def attempt(step: Callable[..., None], *args: Any) -> None:
    """Take a step of which only TVM knows whether it applies; a refusal changes nothing."""
    with contextlib.suppress(RuntimeError, ValueError):
        step(*args)


def inline_chains(sch: Schedule) -> None:
    """Join chains of element-wise blocks into their last.

    From the end, so that all but the last of a chain have one consumer. A reduction would compute
    its argument again for each output, and padding has to stay a copy: both end a chain.
    """
    for block in reversed(blocks_of(sch)):
        consumers = sch.get_consumers(block)
        if len(consumers) != 1 or is_reduction(sch, consumers[0]):
            continue
        if is_reduction(sch, block) or is_padding(sch, block):
            continue
        # What reads its argument twice doubles with each step, until LLVM finds both equal.
        reads = len(accesses(sch.get(block))) + len(accesses(sch.get(consumers[0])))
        if reads <= _MOST_READS:
            attempt(sch.compute_inline, block)
