"""Functions that are written in LLVM's own language, and that kernels call.

TVM's expressions are all that most kernels need. Some of what LLVM can be told they cannot say:

- *Ordered loads.* LLVM puts the loads of a loop's body in the order that suits its multiply-adds:
  of eight rows side by side it reads the first vector of each, then the second ones, and so on. A
  core's prefetcher follows a stream of lines; of such a walk it makes little. A volatile load stays
  where it is written.
- *Pairs of bfloat16.* What multiplies them (`vector_unit.VectorUnit.dots`) wants a type of numbers
  that TVM has no more when it writes LLVM's code: it makes words of 16 bits of bfloat16. So pairs
  are float32 by their bits here, 16 of them to a vector.
- *Numbers of bfloat16 in memory*, for the same reason: their bits are whole numbers here.

A function goes with the kernel that calls it, and LLVM puts it in its callers' place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tvm
from tvm import tirx

from tvm_hetero.kernels.tir.statements import load, sequence

if TYPE_CHECKING:
    Expr = Any

_LOAD = """
define internal <{lanes} x float> @hetero_load_{lanes}(ptr %place) alwaysinline {{
  %numbers = load volatile <{lanes} x float>, ptr %place, align {bytes}
  ret <{lanes} x float> %numbers
}}
"""


_DOT, _PACK = "hetero_dot_bfloat16", "hetero_pack_bfloat16"
# The text of the function that `pack_bfloat16` calls.
PACKING = f"""
define internal <16 x float> @{_PACK}(<32 x float> %wide) alwaysinline {{
  %narrow = fptrunc <32 x float> %wide to <32 x bfloat>
  %pairs = bitcast <32 x bfloat> %narrow to <16 x float>
  ret <16 x float> %pairs
}}
"""
_PAIR = "hetero_pair_bfloat16"
# The text of the function that `pair_bfloat16` calls. LLVM vectorises the loops around it.
PAIRING = f"""
define internal i32 @{_PAIR}(float %low, float %high) alwaysinline {{
  %a = fptrunc float %low to bfloat
  %b = fptrunc float %high to bfloat
  %x = bitcast bfloat %a to i16
  %y = bitcast bfloat %b to i16
  %u = zext i16 %x to i32
  %v = zext i16 %y to i32
  %w = shl i32 %v, 16
  %word = or i32 %u, %w
  ret i32 %word
}}
"""
_ROUND = """
define internal {short} @hetero_round_bfloat16_{lanes}({wide} %number) alwaysinline {{
  %narrow = fptrunc {wide} %number to {half}
  %bits = bitcast {half} %narrow to {short}
  ret {short} %bits
}}
"""
_MULTIPLYING = """
define internal <16 x float> @{dot}(<16 x float> %sum, <16 x float> %a, <16 x float> %b)
    alwaysinline {{
  %x = bitcast <16 x float> %a to <32 x bfloat>
  %y = bitcast <16 x float> %b to <32 x bfloat>
  %total = call <16 x float> @{intrinsic}(<16 x float> %sum, <32 x bfloat> %x, <32 x bfloat> %y)
  ret <16 x float> %total
}}
declare <16 x float> @{intrinsic}(<16 x float>, <32 x bfloat>, <32 x bfloat>)
"""
_VECTOR = "float32x16"


def with_functions(texts: Sequence[str], body: Sequence[tirx.Stmt]) -> tirx.Stmt:
    """The statements, which may call the functions of some texts of LLVM's."""
    text = tvm.ir.StringImm("\n".join(texts))
    return tirx.AttrStmt(tirx.const(0, "int32"), "pragma_import_llvm", text, sequence(body))


def load_text(lanes: int) -> str:
    """The text of the function that `load_in_order` calls for so many lanes."""
    return _LOAD.format(lanes=lanes, bytes=4)


def load_in_order(buffer: tirx.Var, place: Sequence[Expr], lanes: int) -> Expr:
    """So many times 32 bits of a buffer, as float32, read in the order of the statements."""
    address = tirx.address_of(load(buffer, *place))
    return tirx.call_extern(f"float32x{lanes}", f"hetero_load_{lanes}", address)


def round_text(lanes: int) -> str:
    """The text of the function that `round_bfloat16` calls for so many lanes."""
    kinds = {"wide": "float", "half": "bfloat", "short": "i16"}
    if lanes > 1:
        kinds = {name: f"<{lanes} x {kind}>" for name, kind in kinds.items()}
    return _ROUND.format(lanes=lanes, **kinds)


def round_bfloat16(value: Expr, lanes: int) -> Expr:
    """The bits of so many numbers of float32 that are rounded to bfloat16."""
    kind = "uint16" if lanes == 1 else f"uint16x{lanes}"
    return tirx.call_pure_extern(kind, f"hetero_round_bfloat16_{lanes}", value)


def dot_text(intrinsic: str) -> str:
    """The text of the function that `dot_bfloat16` calls, by LLVM's name of the instruction."""
    return _MULTIPLYING.format(dot=_DOT, intrinsic=intrinsic)


def dot_bfloat16(total: Expr, a: Expr, b: Expr) -> Expr:
    """A sum, and for each lane the two products of two vectors of pairs."""
    return tirx.call_pure_extern(_VECTOR, _DOT, total, a, b)


def pack_bfloat16(low: Expr, high: Expr) -> Expr:
    """Two vectors of float32, rounded, as one of pairs."""
    return tirx.call_pure_extern(_VECTOR, _PACK, tirx.Shuffle([low, high], list(range(32))))


def pair_bfloat16(low: Expr, high: Expr) -> Expr:
    """Two numbers of float32, rounded, as one word of 32 bits: the first one in its low half."""
    return tirx.call_pure_extern("int32", _PAIR, low, high)
