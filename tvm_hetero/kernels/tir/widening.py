"""Numbers of bfloat16 are kept so in memory and are float32 everywhere else.

Problem
    TVM does this too, late, when a kernel is compiled (`BF16ComputeLegalize`). But it does not look
    at what a ``Let`` binds: a conversion there becomes one of the bits as an integer, and exp
    of it is infinite, silently. And where a result is rounded it writes the result down three
    times. If that has a ``Let`` in it, as all of `vector_math` has, the kernel cannot be compiled
    ("Let cannot bind the same var to two different values").

Answer
    Kernels are rewritten before `vector_math` writes its functions out:

        a number of a parameter      float32(bits << 16)
        a buffer or variable         of float32
        a result                     the upper half of ``bits + 0x7fff + odd``, bits bound once
        all between them             the same operations with float32

    so that nothing is left for TVM. Where a kernel looks at the bits itself (``reinterpret`` of a
    number in a parameter) it goes on doing so.

Results are rounded to the nearest, ties to even, when they are stored and not before: a chain of
operations in one kernel is as exact as if its types were float32. (A NaN of whose bits only lower
ones are set becomes infinite; TVM's do too. No operation makes one.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.ir.type import PrimType

from tvm_hetero.kernels.tir.statements import broadcast

if TYPE_CHECKING:
    Expr = Any

_NARROW = "bfloat16"
_WIDE = "float32"
_TWO_SIDED = (
    tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max, tirx.LT, tirx.LE, tirx.GT, tirx.GE,
    tirx.EQ, tirx.NE, tirx.And, tirx.Or, tirx.Mod, tirx.FloorDiv, tirx.FloorMod,
)  # fmt: skip
# What is made again of the values in it, and what it calls them.
_PARTS: dict[Any, tuple[str, ...]] = {
    _TWO_SIDED: ("a", "b"),
    tirx.Not: ("a",),
    tirx.Select: ("condition", "true_value", "false_value"),
}


def widen(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function, before `vector_math.expand`, with all operations on bfloat16 in float32."""
    return func.with_body(_Widening(func).statement(func.body)) if _has_narrow(func) else func


def _has_narrow(func: tirx.PrimFunc) -> bool:
    if any(isinstance(p.ty, tirx.BufferType) and _kind(p.ty) == _NARROW for p in func.params):
        return True
    kinds: set[str] = set()
    tvm_ffi.structural_walk(func.body, (tirx.Cast, lambda cast: kinds.add(_kind(cast.ty))))
    return _NARROW in kinds


class _Widening:
    """What becomes of one function; its buffers and variables, by what they were."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        self._made: dict[tirx.Var, tirx.Var] = {}
        looks = [(s_tir.SBlock, self._look), (tirx.Bind, lambda bind: self._named(bind.var))]
        tvm_ffi.structural_walk(func.body, looks)

    def _look(self, block: s_tir.SBlock) -> None:
        for buffer in block.alloc_buffers:
            if buffer.dtype == _NARROW:
                self._made[buffer] = tirx.decl_buffer(
                    buffer.shape, _WIDE, buffer.name, scope=buffer.scope(), layout=None
                )

    def _named(self, var: tirx.Var) -> None:
        if isinstance(var.ty, PrimType) and _kind(var.ty) == _NARROW:
            self._made[var] = tirx.Var(var.name, _like(_WIDE, var))

    def statement(self, body: tirx.Stmt) -> tirx.Stmt:
        """A statement with all that it computes."""
        rules = [(tirx.BufferStore, self._store), (tirx.Bind, self._bind)]
        body = tvm_ffi.structural_map(body, rules)
        return tvm_ffi.structural_map(body, (tirx.Var, lambda var: self._made.get(var, var)))

    def _store(self, store: tirx.BufferStore) -> tirx.Stmt:
        buffer = self._made.get(store.buffer, store.buffer)
        narrow = buffer.dtype == _NARROW
        if narrow and isinstance(store.value, TensorLoad) and store.value.source not in self._made:
            return store  # it is only moved
        value = self._wide(store.value)
        value = _rounded(value) if narrow and _kind(value.ty) == _WIDE else value
        return tirx.BufferStore(buffer, value, list(store.indices))

    def _bind(self, bind: tirx.Bind) -> tirx.Stmt:
        if not isinstance(bind.value.ty, PrimType):
            return bind
        return tirx.Bind(self._made.get(bind.var, bind.var), self._wide(bind.value))

    def _wide(self, expr: Expr) -> Expr:
        """The value of an expression, in float32 where it was bfloat16."""
        if isinstance(expr, TensorLoad):
            return self._read(expr)
        if isinstance(expr, tirx.FloatImm):
            return expr if _kind(expr.ty) != _NARROW else tirx.const(expr.value, _WIDE)
        if isinstance(expr, tirx.Cast):
            value = self._wide(expr.value)
            kind = _WIDE if _kind(expr.ty) == _NARROW else _kind(expr.ty)
            return value if kind == _kind(value.ty) else tirx.Cast(_like(kind, expr), value)
        if isinstance(expr, Call):
            return self._call(expr)
        for kinds, parts in _PARTS.items():
            if isinstance(expr, kinds):
                return type(expr)(*(self._wide(getattr(expr, part)) for part in parts))
        return self._rest(expr)

    def _rest(self, expr: Expr) -> Expr:
        """What has other things in it than the values that it is made of."""
        if isinstance(expr, tirx.Broadcast):
            return tirx.Broadcast(self._wide(expr.value), expr.lanes)
        if isinstance(expr, tirx.Shuffle):
            return tirx.Shuffle([self._wide(v) for v in expr.vectors], list(expr.indices))
        if isinstance(expr, tirx.Let):
            self._named(expr.var)
            parts = self._wide(expr.value), self._wide(expr.body)
            return tirx.Let(self._made.get(expr.var, expr.var), *parts)
        if isinstance(expr, tirx.Var):
            return self._made.get(expr, expr)
        return expr  # integers

    def _call(self, call: Call) -> Expr:
        name = getattr(call.op, "name", "")
        bits = name == "tirx.reinterpret" and _NARROW in (_kind(call.ty), _kind(call.args[0].ty))
        if bits or not isinstance(call.ty, PrimType):
            return call
        args = [self._wide(a) if isinstance(a.ty, PrimType) else a for a in call.args]
        kind = _like(_WIDE, call) if _kind(call.ty) == _NARROW else call.ty
        return Call(call.op, args, call.attrs, call.ty_args, ret_ty=kind)

    def _read(self, load: TensorLoad) -> Expr:
        if load.source in self._made:
            return tirx.BufferLoad(self._made[load.source], list(load.indices))
        if _kind(load.ty) != _NARROW:
            return load
        bits = tirx.reinterpret(_like("uint16", load), load)
        high = tirx.shift_left(tirx.Cast(_like("uint32", load), bits), _bits(16, load))
        return tirx.reinterpret(_like(_WIDE, load), high)


def _rounded(value: Expr) -> Expr:
    """The nearest bfloat16 of float32, the even one of two."""
    bits = tirx.Var("bits", _like("uint32", value))
    odd = tirx.bitwise_and(tirx.shift_right(bits, _bits(16, value)), _bits(1, value))
    half = tirx.shift_right(bits + (odd + _bits(0x7FFF, value)), _bits(16, value))
    short = tirx.Cast(_like("uint16", value), half)
    whole = tirx.reinterpret(_like("uint32", value), value)
    return tirx.reinterpret(_like(_NARROW, value), tirx.Let(bits, whole, short))


def _kind(ty: Any) -> str:
    """The type of one number, whatever stands around it."""
    return str(getattr(ty, "dtype", "")).partition("x")[0]


def _lanes(expr: Expr) -> int:
    return int(str(expr.ty.dtype).partition("x")[2] or 1)


def _like(kind: str, expr: Expr) -> str:
    """That type, for as many numbers as the expression has."""
    return kind if _lanes(expr) == 1 else f"{kind}x{_lanes(expr)}"


def _bits(value: int, like: Expr) -> Expr:
    return broadcast(tirx.const(value, "uint32"), _lanes(like))
