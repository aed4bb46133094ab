"""Whether a schedule that a rule of TVM made for a GPU computes what the kernel says.

Three faults of TVM 0.27 were found on a GPU; a schedule that shows one is not used.

Sums
    What follows a reduction is sometimes computed inside of it: a bias is added once with each
    term, partial sums are cut off at zero. In ``y[i] = max(y[i] + a * b, 0)`` more is done with a
    term than to add it.
Stores
    A product's columns are filled up to a tile. Where its result has batch and column in one index,
    ``c = batch * 8 + column``, what fills up a tile of one batch is stored over the columns of the
    next, as only ``c`` is compared with a bound: which of the two is written last is chance. So of
    the variables of an index, each has to reach less far than a step of the next.
Values of other threads
    A sum that threads have made together is in a buffer of each. What follows is divided among the
    threads anew, sometimes otherwise: a thread then reads a value that another one has. As
    functions of the numbers of threads and blocks, the first index read has to be the first one
    written.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, sym, tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from tvm_hetero.kernels.tir.block_roles import blocks_of

Indices = list[Any]


def is_sound(func: tirx.PrimFunc) -> bool:
    """Whether none of the faults is in a scheduled function."""
    sch = s_tir.Schedule(func)
    blocks = list(map(sch.get, blocks_of(sch)))
    plain = all(adds_only(block) and stores_apart(block) for block in blocks)
    return plain and locals_stay(func)


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


class _Locals:
    """Where buffers of single threads are written and read: indices as of each thread's first."""

    def __init__(self) -> None:
        self.written: dict[tirx.Var, list[Indices]] = {}
        self.read: dict[tirx.Var, list[Indices]] = {}
        self._threads: dict[str, tirx.Var] = {}
        self.analyzer = Analyzer()

    def visit(self, node: Any, values: dict[tirx.Var, Any]) -> None:
        """Go through the loops of a statement; `values` is what their variables are."""
        if isinstance(node, tirx.SeqStmt):
            for child in node.seq:
                self.visit(child, values)
        elif isinstance(node, tirx.For):
            self.visit(node.body, {**values, node.loop_var: self._value(node)})
        elif isinstance(node, s_tir.SBlockRealize):
            pairs = zip(node.block.iter_vars, node.iter_values, strict=True)
            own = {each.var: replaced(value, values) for each, value in pairs}
            self._note(node.block.body, {**values, **own})
            self.visit(node.block.body, {**values, **own})

    def _value(self, loop: tirx.For) -> Any:
        """A thread's number, the same in each loop over these threads; else the first of a loop."""
        if loop.kind != tirx.ForKind.THREAD_BINDING or int(loop.extent) == 1:
            return loop.min
        tag = str(loop.thread_binding.thread_tag)
        if tag not in self._threads:
            var = tirx.Var(tag.replace(".", "_"), str(loop.loop_var.ty.dtype))
            self._threads[tag] = var
            self.analyzer.bind(var, tvm.ir.Range(0, loop.extent))
        return self._threads[tag]

    def _note(self, body: Any, values: dict[tirx.Var, Any]) -> None:
        if not isinstance(body, tirx.BufferStore):
            return
        store = body.buffer
        if _is_own(store):
            self.written.setdefault(store, []).append([replaced(i, values) for i in body.indices])

        def load(node: TensorLoad) -> None:
            if _is_own(node.source) and not node.source.same_as(store):
                indices = [replaced(i, values) for i in node.indices]
                self.read.setdefault(node.source, []).append(indices)

        tvm_ffi.structural_walk(body.value, (TensorLoad, load))


def locals_stay(func: tirx.PrimFunc) -> bool:
    """Whether threads read of their own buffers what they have written there themselves."""
    found = _Locals()
    found.visit(func.body.block.body, {})
    return all(
        any(_are_equal(mine, other, found.analyzer) for other in found.written.get(buffer, ()))
        for buffer, every in found.read.items()
        for mine in every
    )


def _are_equal(mine: Indices, other: Indices, analyzer: Any) -> bool:
    pairs = zip(mine, other, strict=True)
    return all(analyzer.can_prove_equal(a, b) for a, b in pairs)


def _is_own(buffer: tirx.Var) -> bool:
    return str(buffer.ty.storage_scope) == "local"


def replaced(index: Any, values: dict[tirx.Var, Any]) -> Any:
    """An index with values for variables."""

    def instead(var: tirx.Var) -> Any:
        return next((value for own, value in values.items() if own.same_as(var)), var)

    return tvm_ffi.structural_map(index, (tirx.Var, instead))
