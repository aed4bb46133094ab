"""Modulo of loop counters by powers of two, which LLVM 22.1 gets wrong.

Problem
    ``x[i % 4]`` in a loop of more than four steps is ``x[i & 3]`` to LLVM. Its loop vectorizer
    takes that for a counter of two bits, asks that it may not wrap around, and loses the question:
    what was ``i % 4`` then reads ``x[i]``, beyond the operand's end. It depends on what else stands
    in the loop and on the target (x86-64-v3 and v4, not on their machine) whether it does so; a
    repetition (``Tile``) of 2x3x4x5 by 7, 6, 4, 2 had half of its values wrong.

Answer
    The mask comes from an empty piece of assembly, of which LLVM knows nothing but the type. Where
    the loop is not the innermost one, that costs a register; where it is, values are gathered one
    by one, unless a schedule has split the loop (`rules.generic`).

A modulo of a number that was read from memory stays as it is: it is no counter. So does one of a
vector of counters, of which the vectorizer knows nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.cpu.llvm_functions import with_functions

if TYPE_CHECKING:
    import tvm

    Expr = Any

_MODULI = (tirx.FloorMod, tirx.Mod, tirx.BitwiseAnd)
_COUNTERS = ("int32", "int64")
_HIDE = """
define internal i{bits} @hetero_hide_{bits}(i{bits} %number) alwaysinline {{
  %same = call i{bits} asm "", "=r,0"(i{bits} %number)
  ret i{bits} %same
}}
"""


@tirx.transform.prim_func_pass(opt_level=0, name="HideCounterModulo")  # type: ignore[untyped-decorator]
def hide_counter_modulo(
    func: tirx.PrimFunc, _mod: tvm.IRModule, _context: tvm.transform.PassContext
) -> tirx.PrimFunc:
    """A pass: no modulo of a counter by a power of two is left that LLVM could see through."""
    masks: dict[tuple[str, int], tirx.Var] = {}

    def hidden(kind: str, value: int) -> tirx.Var:
        return masks.setdefault((kind, value), tirx.Var(f"mask_{value}", kind))

    def rewritten(node: tirx.FloorMod | tirx.Mod | tirx.BitwiseAnd) -> Expr:
        is_and = isinstance(node, tirx.BitwiseAnd)
        turned = is_and and isinstance(node.a, tirx.IntImm)
        value, by = (node.b, node.a) if turned else (node.a, node.b)
        mask = int(by) - (not is_and) if isinstance(by, tirx.IntImm) else 0
        kind = str(node.ty.dtype)
        if kind not in _COUNTERS or mask < 1 or mask & (mask + 1) or _is_read(value):
            return node
        cut = _truncated if isinstance(node, tirx.Mod) else tirx.bitwise_and
        return cut(value, hidden(kind, mask))

    body = tvm_ffi.structural_map(func.body, (_MODULI, rewritten))
    return func if not masks else func.with_body(_with_masks(masks, body))


def _truncated(value: Expr, mask: Expr) -> Expr:
    """The remainder with the sign of the value: a negative one is lifted before it is cut."""
    sign = tirx.shift_right(value, tirx.const(int(_bits(str(value.ty.dtype))) - 1, value.ty.dtype))
    lifted = tirx.bitwise_and(sign, mask)
    return tirx.bitwise_and(value + lifted, mask) - lifted


def _with_masks(masks: dict[tuple[str, int], tirx.Var], body: tirx.Stmt) -> tirx.Stmt:
    """The body behind the masks that it uses, which are made once."""
    binds = []
    for (kind, value), mask in masks.items():
        hide = f"hetero_hide_{_bits(kind)}"
        binds.append(tirx.Bind(mask, tirx.call_pure_extern(kind, hide, tirx.const(value, kind))))
    texts = [_HIDE.format(bits=_bits(kind)) for kind in sorted({kind for kind, _ in masks})]
    return with_functions(texts, [*binds, body])


def _is_read(value: Expr) -> bool:
    """True where a number depends on what stands in memory."""
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(value, (TensorLoad, found.append))
    return bool(found)


def _bits(kind: str) -> str:
    return kind.removeprefix("int")
