"""Kernels that are skipped where what they compute is multiplied by nothing but zeros.

In a mixture of experts every expert stands in the graph, but a token is given to few of them; for
the others its weight is 0, and so is what comes out. A kernel whose last block `guard_attr` has
marked,

    out[i, j] = select(weight[i, 0] != 0, value, 0)

therefore computes the same when it is skipped and ``out`` filled with zeros, wherever all weights
are 0. `skip_zero_weights` makes that of a scheduled kernel: the schedule inlines the marked block
and knows nothing of it, so it is looked up before (`guards_of`). A kernel for several elements
(`tvm_hetero.kernels.tir.batched`) is skipped where the weights of all of them are 0.

For CPUs alone: on a GPU the condition would be read by the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from tvm_hetero.kernels.tir.batched import statements_of, with_root
from tvm_hetero.kernels.tir.statements import load, loop, real, sequence, store, tensor

GUARD = "tvm_hetero.guard"


@dataclass(frozen=True)
class Guards:
    """Parameters that are weights, and those that are written: zeros where all weights are."""

    weights: tuple[int, ...]
    outputs: tuple[int, ...]


def guard_attr() -> dict[str, int]:
    """The attribute of a ``te.compute`` that marks its block."""
    return {GUARD: 1}


def guards_of(func: tirx.PrimFunc) -> Guards | None:
    """The guards of a kernel that is not scheduled; None where it writes anything else too."""
    root = func.body.block if isinstance(func.body, s_tir.SBlockRealize) else None
    marked = _blocks(func, marked=True) if root is not None else []
    if not marked:
        return None
    position = {param: i for i, param in enumerate(func.params)}
    outputs = _written(_blocks(func, marked=False), position)
    last = [block for block in marked if _written([block], position)]
    weights = {position.get(_weight(block), -1) for block in last}
    if outputs != _written(last, position) or -1 in weights:
        return None
    return Guards(tuple(sorted(weights)), tuple(sorted(outputs)))


def skip_zero_weights(func: tirx.PrimFunc, guards: Guards) -> tirx.PrimFunc:
    """A scheduled kernel, skipped where all weights are 0."""
    flag = tensor("given", [1], "int32", "local")
    body = [
        store(flag, [0], tirx.const(0, "int32")),
        *(_look(func.params[i], flag) for i in guards.weights),
        tirx.IfThenElse(
            load(flag, 0) != tirx.const(0, "int32"),
            sequence(statements_of(func.body.block.body)),
            sequence([_zeros(func.params[i]) for i in guards.outputs]),
        ),
    ]
    buffers = [*func.body.block.alloc_buffers, flag]
    return func.with_body(with_root(func.body, tirx.SeqStmt(body), buffers))


def _blocks(func: tirx.PrimFunc, *, marked: bool) -> list[s_tir.SBlock]:
    found: list[s_tir.SBlock] = []

    def meet(block: s_tir.SBlock) -> None:
        if GUARD in block.annotations or not marked:
            found.append(block)

    tvm_ffi.structural_walk(func.body.block.body, (s_tir.SBlock, meet))
    return found


def _written(blocks: Sequence[s_tir.SBlock], position: Mapping[Any, int]) -> set[int]:
    """Which parameters some blocks write."""
    return {position[r.source] for b in blocks for r in b.writes if r.source in position}


def _weight(block: s_tir.SBlock) -> Any:
    """The buffer whose value decides in a marked block."""
    return block.body.value.condition.a.source


def _look(weight: Any, flag: Any) -> tirx.Stmt:
    """Set the flag where a weight is not 0."""

    def one(index: Sequence[Any]) -> tirx.Stmt:
        given = tirx.Cast("int32", load(weight, *index) != real(0.0))
        return store(flag, [0], tirx.bitwise_or(load(flag, 0), given))

    return _each(weight, one)


def _zeros(output: Any) -> tirx.Stmt:
    zero = tirx.const(0.0, str(output.ty.dtype))
    return _each(output, lambda index: store(output, index, zero))


def _each(buffer: Any, body: Callable[[Sequence[Any]], tirx.Stmt]) -> tirx.Stmt:
    """Loops over all values of a buffer."""

    def below(index: Sequence[Any]) -> tirx.Stmt:
        if len(index) == len(buffer.ty.shape):
            return body(index)
        extent = int(buffer.ty.shape[len(index)])
        return loop(f"i{len(index)}", extent, lambda i: below([*index, i]))

    return below([])
