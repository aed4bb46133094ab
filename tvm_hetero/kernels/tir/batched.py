"""Kernels that compute several elements of a batch in one call: what they compute.

A kernel runs once for each element of a batch, and reads its weights each time. One that computes
several elements can read them once. `batch_kernel` makes such a kernel of one that is not
scheduled, and `unbatch_kernel` gives that back; `batched_schedule` then makes it fast.

Signature
    Every parameter of the kernel in its order; one that all elements share (constants) stands
    there once, every other `count` times, the elements in order. Of ``(x, w, y)`` with a shared
    ``w`` and two elements: ``(x_0, x_1, w, y_0, y_1)``. Results are parameters too, the last ones.

Body
    That of the kernel, once for each element, each with buffers of its own between its blocks. So
    whoever compiles it without scheduling it computes the same as `count` calls, bit for bit. The
    first element's part is the kernel's body itself: `unbatch_kernel` needs no more than to cut it
    out.

Attribute
    ``tvm_hetero.batched``: the number of elements, and which parameters of the kernel are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx.buffer import is_buffer_var

BATCHED_ATTR = "tvm_hetero.batched"
CONDITIONS = "tvm_hetero.conditions"
_SCHEDULED = "tirx.is_scheduled"


def batch_kernel(func: tirx.PrimFunc, count: int, shared: Sequence[int]) -> tirx.PrimFunc:
    """The kernel that computes ``count`` elements, not scheduled.

    Parameters
    ----------
    func
        A kernel of one element that is not scheduled, of a module that `LowerToTasks` made.
    count
        How many elements, two at least.
    shared
        Positions of the parameters that are the same for all elements: its weights.

    Raises
    ------
    ValueError
        If there is no such kernel.
    """
    positions = sorted({int(i) for i in shared})
    _check(func, count, positions)
    return repeat_kernel(func, count, positions)


def repeat_kernel(func: tirx.PrimFunc, count: int, shared: Sequence[int]) -> tirx.PrimFunc:
    """The body of any kernel, a scheduled one too, once for each element (see `batch_kernel`)."""
    elements = [func, *(_element(func, e, shared) for e in range(1, count))]
    params = [
        [first] if i in shared else [element.params[i] for element in elements]
        for i, first in enumerate(func.params)
    ]
    roots = [element.body.block for element in elements]
    statements = [statement for root in roots for statement in statements_of(root.body)]
    buffers = [buffer for root in roots for buffer in root.alloc_buffers]
    attribute = {"count": count, "shared": list(shared)}
    body = with_root(func.body, tirx.SeqStmt(statements), buffers)
    made = tirx.PrimFunc(list(chain(*params)), body, func.ret_type, func.attrs, func.span)
    return made.with_attr(BATCHED_ATTR, attribute)


def unbatch_kernel(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The kernel of one element; a kernel that is not batched comes back as it is.

    Raises
    ------
    ValueError
        If the kernel is scheduled: it may compute all elements in one nest of loops.
    """
    count = batch_of_kernel(func)
    if count == 1:
        return func
    if _is_scheduled(func):
        raise ValueError("the kernel is scheduled: its elements may be one nest of loops now")
    root = func.body.block
    statements = statements_of(root.body)
    first = statements[: len(statements) // count]
    buffers = list(root.alloc_buffers)
    inner = first[0] if len(first) == 1 else tirx.SeqStmt(first)
    body = with_root(func.body, inner, buffers[: len(buffers) // count])
    params = [func.params[positions[0]] for positions in params_of(func)]
    made = tirx.PrimFunc(params, body, func.ret_type, func.attrs, func.span)
    return made.without_attr(BATCHED_ATTR)


def batch_of_kernel(func: tirx.PrimFunc) -> int:
    """How many elements a kernel computes: 1 where it is not batched."""
    value = _attribute(func)
    return 1 if value is None else int(value["count"])


def shared_of(func: tirx.PrimFunc) -> list[int]:
    """Which parameters of the kernel of one element are shared by all; none if not batched."""
    value = _attribute(func)
    return [] if value is None else [int(i) for i in value["shared"]]


def params_of(func: tirx.PrimFunc) -> list[range]:
    """For each parameter of the kernel of one element: where the batched one has it.

    One position where all elements share it, else one for each element.
    """
    count, shared = batch_of_kernel(func), shared_of(func)
    found: list[range] = []
    at = 0
    while at < len(func.params):
        found.append(range(at, at + (1 if len(found) in shared else count)))
        at = found[-1].stop
    return found


def _attribute(func: tirx.PrimFunc) -> Any:
    return None if func.attrs is None else func.attrs.get(BATCHED_ATTR)


def _is_scheduled(func: tirx.PrimFunc) -> bool:
    return func.attrs is not None and bool(func.attrs.get(_SCHEDULED))


def _check(func: tirx.PrimFunc, count: int, shared: Sequence[int]) -> None:
    """Raise where there is no batched kernel of this one."""
    if count < 2:
        raise ValueError(f"{count} elements: a batched kernel computes two at least")
    if batch_of_kernel(func) > 1:
        raise ValueError(f"the kernel computes {batch_of_kernel(func)} elements already")
    if _is_scheduled(func):
        raise ValueError("the kernel is scheduled: batch it before that")
    if func.attrs is not None and CONDITIONS in func.attrs:
        raise ValueError("the kernel runs under a condition of its own element")
    body = func.body
    if not isinstance(body, s_tir.SBlockRealize) or list(body.block.iter_vars):
        raise ValueError("the kernel's body is no root block: expected what LowerToTasks makes")
    if not all(is_buffer_var(p) and all(_fixed(e) for e in p.ty.shape) for p in func.params):
        raise ValueError("parameters of a batched kernel are tensors of fixed shapes")
    beyond = [i for i in shared if not 0 <= i < len(func.params)]
    if beyond:
        raise ValueError(f"shared parameters {beyond} of {len(func.params)}: there are none such")
    written = _written(func)
    clash = [i for i in shared if any(func.params[i].same_as(w) for w in written)]
    if clash:
        raise ValueError(f"the kernel writes its parameters {clash}: elements cannot share them")


def _fixed(extent: Any) -> bool:
    return isinstance(extent, int | tirx.IntImm)


def _written(func: tirx.PrimFunc) -> list[tirx.Var]:
    """The buffers that a kernel's blocks say they write."""
    found: list[tirx.Var] = []
    tvm_ffi.structural_walk(
        func.body, (s_tir.SBlock, lambda block: found.extend(r.source for r in block.writes))
    )
    return found


def _element(func: tirx.PrimFunc, element: int, shared: Sequence[int]) -> tirx.PrimFunc:
    """A copy of the kernel with variables, buffers and block names of its own.

    Shared parameters stay those of the kernel.
    """
    copy = s_tir.renew_defs(func)
    kept = {copy.params[i]: func.params[i] for i in shared}

    def variable(var: tirx.Var) -> tirx.Var:
        return kept.get(var, var)

    def block(node: s_tir.SBlock) -> s_tir.SBlock:
        return _renamed(node, f"{node.name_hint}_element{element}")

    return copy.with_body(
        tvm_ffi.structural_map(copy.body, [(tirx.Var, variable), (s_tir.SBlock, block)])
    )


def _renamed(block: s_tir.SBlock, name: str) -> s_tir.SBlock:
    return s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, name, block.body, block.init,
        block.alloc_buffers, block.match_buffers, block.annotations, block.span,
    )  # fmt: skip


def statements_of(body: tirx.Stmt) -> list[tirx.Stmt]:
    """The statements of a sequence, or the only one."""
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def with_root(
    realize: s_tir.SBlockRealize, body: tirx.Stmt, buffers: Sequence[tirx.Buffer]
) -> s_tir.SBlockRealize:
    """The root block with another body and other buffers."""
    root = realize.block
    block = s_tir.SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, body, root.init, buffers,
        root.match_buffers, root.annotations, root.span,
    )  # fmt: skip
    return s_tir.SBlockRealize(realize.iter_values, realize.predicate, block, realize.span)
