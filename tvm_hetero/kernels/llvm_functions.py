"""Functions that are written in LLVM's own language, and that kernels call.

TVM's expressions are all that most kernels need. Some of what LLVM can be told they cannot say:

- *Ordered loads.* LLVM puts the loads of a loop's body in the order that suits its multiply-adds:
  of eight rows side by side it reads the first vector of each, then the second ones, and so on. A
  core's prefetcher follows a stream of lines; of such a walk it makes little (queries times keys
  read 10 GB/s on one Zen 4 core, ordered 31). A volatile load stays where it is written.
- Instructions on types that TVM has no more when it writes LLVM's code (`attention_pairs`).

A function goes with the kernel that calls it, and LLVM puts it in its callers' place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tvm
from tvm import tirx

from .statements import load, sequence

if TYPE_CHECKING:
    Expr = Any

_LOAD = """
define internal <{lanes} x float> @hetero_load_{lanes}(ptr %place) alwaysinline {{
  %numbers = load volatile <{lanes} x float>, ptr %place, align {bytes}
  ret <{lanes} x float> %numbers
}}
"""


def with_functions(texts: Sequence[str], body: Sequence[tirx.Stmt]) -> tirx.Stmt:
    """The statements, which may call the functions of some texts of LLVM's."""
    text = tvm.ir.StringImm("\n".join(texts))
    return tirx.AttrStmt(tirx.const(0, "int32"), "pragma_import_llvm", text, sequence(body))


def loading(lanes: int) -> str:
    """The text of the function that `loaded` calls for so many lanes."""
    return _LOAD.format(lanes=lanes, bytes=4)


def loaded(buffer: tirx.Var, place: Sequence[Expr], lanes: int) -> Expr:
    """So many times 32 bits of a buffer, as float32, read in the order of the statements."""
    address = tirx.address_of(load(buffer, *place))
    return tirx.call_extern(f"float32x{lanes}", f"hetero_load_{lanes}", address)
