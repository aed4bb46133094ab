"""Maxima that begin with -inf and skip NaN, scheduled as those that TVM knows.

TVM splits a reduction (`rfactor`) only if it knows by heart what it begins with and how it is
combined:

    TVM's   red = least finite number;  red = max(red, x)
    ours    red = -inf;                 red = max(x, red)

So a kernel is scheduled as if it were of TVM's form, and brought into ours afterwards, with all
that scheduling has made of it. A kernel in which the least finite number stands already is left as
it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

_FLOATS = ("float16", "float32", "float64")


Schedule = Callable[[tirx.PrimFunc], tirx.PrimFunc]


def extremes_scheduler(func: tirx.PrimFunc) -> Callable[[Schedule], tirx.PrimFunc]:
    """What gives a kernel, scheduled as it is told, whose maxima begin with infinities as before.

    TVM's form is made once for all that are tried. Nothing is looked at before the first.

    Parameters
    ----------
    func
        A kernel that is not scheduled.
    """
    known = cache(partial(_known_to_tvm, func))

    def scheduled(schedule: Schedule) -> tirx.PrimFunc:
        form = known()
        return schedule(func) if form is None else _with_infinities(schedule(form))

    return scheduled


def _known_to_tvm(func: tirx.PrimFunc) -> tirx.PrimFunc | None:
    """The kernel in TVM's form; None where it is left as it is."""
    finite = func.with_body(tvm_ffi.structural_map(func.body, (s_tir.SBlock, _with_finite_init)))
    if tvm_ffi.structural_equal(finite, func) or _holds_limits(func):
        return None
    return finite.with_body(
        tvm_ffi.structural_map(finite.body, (tirx.BufferStore, partial(_turned, own_first=True)))
    )


def _with_infinities(done: tirx.PrimFunc) -> tirx.PrimFunc:
    """A scheduled kernel of TVM's form in ours."""
    rules = [(tirx.FloatImm, _infinite), (tirx.BufferStore, partial(_turned, own_first=False))]
    return done.with_body(tvm_ffi.structural_map(done.body, rules))


def _turned(store: tirx.BufferStore, *, own_first: bool) -> tirx.BufferStore:
    """A step of a maximum or minimum with what it had before in first, or in second, place."""
    value = store.value
    if not isinstance(value, tirx.Max | tirx.Min):
        return store
    old, new = (value.b, value.a) if own_first else (value.a, value.b)
    is_own = (
        isinstance(old, TensorLoad)
        and old.source.same_as(store.buffer)
        and tvm_ffi.structural_equal(list(old.indices), list(store.indices))
    )
    if not is_own:
        return store
    turned = type(value)(old, new) if own_first else type(value)(new, old)
    return tirx.BufferStore(store.buffer, turned, store.indices, store.span)


def _with_finite_init(block: s_tir.SBlock) -> s_tir.SBlock:
    if block.init is None:
        return block
    init = tvm_ffi.structural_map(block.init, (tirx.FloatImm, _finite))
    return s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, block.body, init,
        block.alloc_buffers, block.match_buffers, block.annotations, block.span,
    )  # fmt: skip


def _finite(number: tirx.FloatImm) -> Any:
    kind, value = str(number.ty.dtype), float(number.value)
    if kind not in _FLOATS or not math.isinf(value):
        return number
    return tirx.min_value(kind) if value < 0 else tirx.max_value(kind)


def _infinite(number: tirx.FloatImm) -> Any:
    if not _is_limit(number):
        return number
    return tirx.FloatImm(str(number.ty.dtype), math.copysign(math.inf, float(number.value)))


def _is_limit(number: tirx.FloatImm) -> bool:
    kind = str(number.ty.dtype)
    return kind in _FLOATS and abs(float(number.value)) == float(tirx.max_value(kind).value)


def _holds_limits(func: tirx.PrimFunc) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.FloatImm, found.append))
    return any(_is_limit(number) for number in found)
