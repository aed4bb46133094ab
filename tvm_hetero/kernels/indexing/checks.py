"""Kernels that look at their indices before they use them.

Problem
    TVM's gathers and scatters read and write wherever an index points. An index beyond the end of
    a table (a token of another model's vocabulary) gives what stands in the memory there, or ends
    the process.

Answer
    Of a kernel that is not scheduled the places are found that data tell, and that may be outside
    (`indirect_accesses`). However it is scheduled, the kernel then begins with a loop over the
    indices (`with_checks`), and raises an error before anything is read or written:

        for i in range(3):                       bad: no branch, so that LLVM makes vectors of it
            bad = bad | (index[i] < 0 or index[i] >= 100)
        if bad:
            for i in range(3):
                if index[i] < 0 or index[i] >= 100:
                    call_packed("tvm_hetero.index_error", "'t' (float32[100, 64])", 0, index[i], ..)

    Indices are few beside what is read for them: for each row of an embedding there is one.

    Where an index is computed in the kernel by more than such a loop can say, the check stands
    right before the access, and the kernel is not scheduled (`in_place`).

The function that the call names is in the executor's library (``src/executor/index_error.cc``);
processes without it have the one below. Where there is neither, the call itself is an error.

For CPUs alone: what indices of a GPU are, its host cannot see (`masks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.indexing.exact_casts import exact_cast, with_exact_casts
from tvm_hetero.kernels.indexing.indirect_accesses import (
    Access,
    has_indirect_accesses,
    indirect_accesses,
    loads_in,
    substitute,
)
from tvm_hetero.kernels.tir.batched import statements_of, with_root
from tvm_hetero.kernels.tir.implementation_attr import DEFAULT, RULE_ATTR
from tvm_hetero.kernels.tir.kernel_attr import ATTENTION, RECURRENT, kernel_parameters
from tvm_hetero.kernels.tir.nests import INDEX
from tvm_hetero.kernels.tir.statements import load, loop, sequence, store, tensor, when, whole, wide

if TYPE_CHECKING:
    Expr = Any

ERROR = "tvm_hetero.index_error"
CHECKED, SCHEDULED = "tvm_hetero.indices_checked", "tirx.is_scheduled"


def index_error(tensor: str, axis: int, index: int, least: int, length: int) -> None:
    """Raise an error: what kernels call.

    Raises
    ------
    IndexError
        Always.
    """
    raise IndexError(
        f"index {index} is out of bounds for axis {axis} of size {length} of {tensor}: "
        f"expected {least} to {length - 1}"
    )


def with_checks(
    func: tirx.PrimFunc, schedule: Callable[[tirx.PrimFunc], tirx.PrimFunc]
) -> tirx.PrimFunc:
    """A kernel, scheduled by ``schedule``, that refuses indices outside of what they point into.

    Parameters
    ----------
    func
        A kernel that is not scheduled.
    schedule
        What makes a scheduled one of it, with as many parameters.
    """
    # What attention reads of its caches, and a recurrence of its sequences, is clamped to them by
    # whoever writes it out.
    clamped = any(kernel_parameters(func, name) is not None for name in (ATTENTION, RECURRENT))
    if clamped or not has_indirect_accesses(func):
        return schedule(func)
    func = with_exact_casts(func)
    accesses = indirect_accesses(func)
    if not accesses:
        return schedule(func)
    register_index_error()
    if not all(access.ahead for access in accesses):
        return in_place(func, accesses).with_attrs({SCHEDULED: True, RULE_ATTR: DEFAULT})
    done = schedule(func)
    params = dict(zip(func.params, done.params, strict=True))
    return _begun(done, [_ahead(access, params) for access in accesses])


def add_missing_checks(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that no one has scheduled, with its checks; any other one as it is."""
    attrs = func.attrs or {}
    if CHECKED in attrs or attrs.get(SCHEDULED) or not _is_for_cpu(attrs.get("target")):
        return func
    return with_checks(func, lambda func: func)


def _is_for_cpu(target: Any) -> bool:
    return target is None or str(target.kind.name) == "llvm"


def in_place(func: tirx.PrimFunc, accesses: Sequence[Access]) -> tirx.PrimFunc:
    """A kernel, not scheduled, with the checks right before the accesses.

    All its loops are serial: TVM's parallel loops, where they have one thread, lose an error.

    Raises
    ------
    ModelError
        If there is no such place, as where a loop ends by what is looked up.
    """
    met: list[Access] = []

    def checked(node: tirx.Stmt) -> tirx.Stmt:
        own = [a for a in accesses if _is_at(a, node)]
        met.extend(own)
        checks = [_guarded(a, _check(a)) for a in own]
        node = _serial(node) if isinstance(node, tirx.For) else node
        return tirx.SeqStmt([*checks, node]) if checks else node

    kinds = (tirx.BufferStore, tirx.Evaluate, tirx.For, tirx.IfThenElse)
    body = tvm_ffi.structural_map(func.body, (kinds, checked))
    missed = [access for access in accesses if access not in met]
    if missed:
        raise ModelError(
            f"a kernel reads {_name(missed[0].tensor)} at places that data tell, in a statement "
            f"before which they cannot be checked: {type(missed[0].statement).__name__}"
        )
    return func.with_body(body)


def _serial(node: tirx.For) -> tirx.For:
    if node.kind != tirx.ForKind.PARALLEL:
        return node
    return tirx.For(node.loop_var, node.min, node.extent, tirx.ForKind.SERIAL, node.body)


def _is_at(access: Access, node: tirx.Stmt) -> bool:
    """Whether an access happens as a statement begins; its body may have changed meanwhile."""
    statement = access.statement
    if isinstance(node, tirx.For):
        return isinstance(statement, tirx.For) and statement.loop_var.same_as(node.loop_var)
    if isinstance(node, tirx.IfThenElse):
        same = isinstance(statement, tirx.IfThenElse)
        return same and statement.condition.same_as(node.condition)
    return bool(statement.same_as(node))


def register_index_error() -> None:
    """Make `ERROR` known, for kernels that call it in a process without the executor."""
    if tvm_ffi.get_global_func(ERROR, allow_missing=True) is None:
        tvm_ffi.register_global_func(ERROR, index_error)


def _begun(func: tirx.PrimFunc, checks: Sequence[tirx.Stmt]) -> tirx.PrimFunc:
    """A function that begins with these statements."""
    func = func.with_attr(CHECKED, True)
    body = func.body
    if isinstance(body, s_tir.SBlockRealize) and body.block.name_hint == "root":
        statements = [*checks, *statements_of(body.block.body)]
        root = with_root(body, tirx.SeqStmt(statements), list(body.block.alloc_buffers))
        return func.with_body(root)
    return func.with_body(_block("root", tirx.SeqStmt([*checks, body])))


def _block(name: str, body: tirx.Stmt, buffers: Sequence[tirx.Var] = ()) -> tirx.Stmt:
    block = s_tir.SBlock([], [], [], name, body, alloc_buffers=list(buffers))
    return s_tir.SBlockRealize([], tirx.const(True, "bool"), block)


def _ahead(access: Access, params: dict[tirx.Var, tirx.Var]) -> tirx.Stmt:
    """The check of all places that an access will be at."""
    tensor_of = params.get(access.tensor, access.tensor)
    access = Access(
        tensor_of,
        access.axis,
        substitute(access.index, params),
        access.loops,
        tuple(substitute(condition, params) for condition in access.conditions),
        access.ahead,
        access.statement,
    )
    if not access.loops:
        return _block("check_index", _guarded(access, _check(access)))
    bad = tensor("bad", [1], "int32", "local")
    found = load(bad, 0) != tirx.const(0, "int32")
    note = store(bad, [0], tirx.bitwise_or(load(bad, 0), tirx.Cast("int32", _outside(access))))
    body = [
        store(bad, [0], tirx.const(0, "int32")),
        _around(access, _guarded(access, note)),
        when(found, _around(access, _guarded(access, _check(access)))),
    ]
    return _block("check_indices", sequence(body), [bad])


def _around(access: Access, body: tirx.Stmt) -> tirx.Stmt:
    """The loops of an access, with variables of their own, around a statement."""
    for var, extent in reversed(access.loops):
        kind, inner = str(var.ty.dtype), body

        def one(i: Expr, var: tirx.Var = var, kind: str = kind, inner: tirx.Stmt = inner) -> Any:
            return substitute(inner, {var: i if kind == INDEX else tirx.Cast(kind, i)})

        body = loop(var.name, extent, one)
    return body


def _guarded(access: Access, body: tirx.Stmt) -> tirx.Stmt:
    for condition in reversed(access.conditions):
        body = when(condition, body)
    return body


def _outside(access: Access) -> Expr:
    index = exact_cast(INDEX, access.index)
    return tirx.any(index < whole(0), index >= whole(access.length))


def _check(access: Access) -> tirx.Stmt:
    given = _given(access)
    least = -access.length if _counts_from_the_end(access, given) else 0
    numbers = [access.axis, wide(given), least, access.length]
    arguments = [whole(n) if isinstance(n, int) else n for n in numbers]
    call = tirx.call_packed(ERROR, tvm.ir.StringImm(_name(access.tensor)), *arguments)
    return when(_outside(access), tirx.Evaluate(call))


def _given(access: Access) -> Expr:
    """The number that data give: what is made of it, only where there are several."""
    loads = [ld for ld in loads_in(access.index) if _is_whole(ld)]
    outer = [ld for ld in loads if not any(_within(ld, o) for o in loads if o is not ld)]
    return outer[0] if len(outer) == 1 else access.index


def _is_whole(value: Expr) -> bool:
    return str(value.ty.dtype).startswith(("int", "uint"))


def _within(inner: Expr, outer: Expr) -> bool:
    """Whether a load is part of another load's indices."""
    return any(
        tvm_ffi.structural_equal(inner, ld) for index in outer.indices for ld in loads_in(index)
    )


def _counts_from_the_end(access: Access, given: Expr) -> bool:
    """Whether minus the length is taken for the first place."""
    if given is access.index or not str(given.ty.dtype).startswith("int"):
        return False
    if _has_unsigned(access.index):  # TVM folds no negative number into an unsigned one
        return False
    lowest = tirx.const(-access.length, str(given.ty.dtype))

    def put(ld: Any) -> Any:
        return lowest if tvm_ffi.structural_equal(ld, given) else ld

    kinds = type(given)
    place = Analyzer().simplify(tvm_ffi.structural_map(access.index, (kinds, put)))
    return isinstance(place, tirx.IntImm) and int(place) == 0


def _has_unsigned(index: Expr) -> bool:
    kinds: list[str] = []
    tvm_ffi.structural_walk(index, (tirx.Cast, lambda cast: kinds.append(str(cast.ty.dtype))))
    return any(kind.startswith("uint") for kind in kinds)


def _name(buffer: tirx.Var) -> str:
    """A tensor as messages name it."""
    extents = ", ".join(str(int(extent)) for extent in buffer.ty.shape)
    return f"'{buffer.name}' ({buffer.ty.dtype}[{extents}])"
