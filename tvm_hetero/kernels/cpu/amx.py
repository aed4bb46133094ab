"""Intel's tile registers (AMX): eight of up to 16 rows of 64 bytes, multiplied by one instruction.

    C[m, n] += sum over k of  A[m, 2 k] B[k, 2 n] + A[m, 2 k + 1] B[k, 2 n + 1]

with A of 32 numbers of bfloat16 to a row, B of 16 rows (two steps of the reduction each, number by
number in turn, for 16 columns), C of 16 float32 to a row. One instruction is 16 x 16 x 32
multiply-adds in 16 cycles, sixteen times what vectors of float32 do. The same of bytes: four steps
to 32 bits, sums of integers, A with or without a sign, B without (`BYTES_BY_BYTES`), or the other
way round (`UNSIGNED_BY_SIGNED`).

TVM has no word for them, so functions in LLVM's language have (`llvm_functions`). Registers go by
number there, and hold what they hold until something else is loaded: a kernel sees to it by itself.
Before a thread uses them they are given their sizes (`configure_tiles`), and when it is through
they are let go (`release_tiles`), or every change of threads would save eight kilobytes.

The system must allow a process to use them (`platform.amx_permission`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.tir.statements import load, whole

if TYPE_CHECKING:
    Expr = Any
    # Rows, and bytes of a row, of each register; an instruction and its three registers.
    Sizes = Sequence[tuple[int, int]]
    Product = tuple[str, int, int, int]

# Registers, the rows and bytes of a row of each; numbers of bfloat16 and of float32 in a row.
REGISTERS, ROWS, BYTES = 8, 16, 64
NARROW, WIDE = BYTES // 2, BYTES // 4
# Instructions: of pairs of bfloat16; of four bytes, a left side without and with a sign; of bytes
# without a sign by bytes with one.
BFLOAT16 = "tdpbf16ps"
BYTES_BY_BYTES = PLAIN, SIGNED = "tdpbuud", "tdpbsud"
UNSIGNED_BY_SIGNED = "tdpbusd"

_FUNCTIONS = """
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tilezero(i8)
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tilestored64(i8, ptr, i64)
declare void @llvm.x86.tdpbf16ps(i8, i8, i8)
declare void @llvm.x86.tdpbuud(i8, i8, i8)
declare void @llvm.x86.tdpbsud(i8, i8, i8)
declare void @llvm.x86.tdpbusd(i8, i8, i8)
define internal void @hetero_tiles_end() alwaysinline {
  call void @llvm.x86.tilerelease()
  ret void
}
"""
_BEGIN = """
@hetero_tiles_of_{name} = private unnamed_addr constant [64 x i8] c"{bytes}", align 64
define internal void @hetero_tiles_begin_{name}() alwaysinline {{
  call void @llvm.x86.ldtilecfg(ptr @hetero_tiles_of_{name})
  ret void
}}
"""
_OF_ONE = """
define internal void @hetero_tile_zero_{t}() alwaysinline {{
  call void @llvm.x86.tilezero(i8 {t})
  ret void
}}
define internal void @hetero_tile_load_{t}(ptr %place, i64 %stride) alwaysinline {{
  call void @llvm.x86.tileloadd64(i8 {t}, ptr %place, i64 %stride)
  ret void
}}
define internal void @hetero_tile_store_{t}(ptr %place, i64 %stride) alwaysinline {{
  call void @llvm.x86.tilestored64(i8 {t}, ptr %place, i64 %stride)
  ret void
}}
"""
_DOT = """
define internal void @hetero_tile_{kind}_{c}_{a}_{b}() alwaysinline {{
  call void @llvm.x86.{kind}(i8 {c}, i8 {a}, i8 {b})
  ret void
}}
"""


def tile_functions(sizes: Sequence[Sizes], products: Sequence[Product]) -> list[str]:
    """The texts of the functions below.

    Parameters
    ----------
    sizes
        Rows, and bytes of a row, of all registers, for each call of `configure_tiles`.
    products
        The instruction, and the registers (sums, left, right), of each call of `dot_tiles`.
    """
    begins = [_BEGIN.format(name=_name(each), bytes=_configuration(each)) for each in sizes]
    ones = [_OF_ONE.format(t=t) for t in range(REGISTERS)]
    dots = [_DOT.format(kind=kind, c=c, a=a, b=b) for kind, c, a, b in sorted(set(products))]
    return [_FUNCTIONS, *dict.fromkeys(begins), *ones, *dots]


def rows_of(rows: Sequence[int]) -> Sizes:
    """Registers of so many whole rows."""
    return [(count, BYTES) for count in rows]


def configure_tiles(sizes: Sizes) -> tirx.Stmt:
    """The registers have these sizes from here on, and are zero."""
    return _called(f"hetero_tiles_begin_{_name(sizes)}")


def release_tiles() -> tirx.Stmt:
    """The thread needs the registers no more."""
    return _called("hetero_tiles_end")


def zero_tile(register: int) -> tirx.Stmt:
    """A register of zeros."""
    return _called(f"hetero_tile_zero_{register}")


def load_tile(register: int, buffer: tirx.Var, place: Sequence[Expr], stride: int) -> tirx.Stmt:
    """Rows from a place of a buffer on, so many bytes from one to the next, into a register."""
    return _called(f"hetero_tile_load_{register}", _address(buffer, place), whole(stride))


def store_tile(register: int, buffer: tirx.Var, place: Sequence[Expr], stride: int) -> tirx.Stmt:
    """The rows of a register to a place of a buffer."""
    return _called(f"hetero_tile_store_{register}", _address(buffer, place), whole(stride))


def dot_tiles(kind: str, sums: int, left: int, right: int) -> tirx.Stmt:
    """``sums += left * right``, all of them registers, by an instruction."""
    return _called(f"hetero_tile_{kind}_{sums}_{left}_{right}")


def _address(buffer: tirx.Var, place: Sequence[Expr]) -> Expr:
    return tirx.address_of(load(buffer, *place))


def _called(name: str, *arguments: Expr) -> tirx.Stmt:
    return tirx.Evaluate(tirx.call_extern("void", name, *arguments))


def _name(sizes: Sizes) -> str:
    return "_".join(f"{rows}x{count}" for rows, count in sizes)


def _configuration(sizes: Sizes) -> str:
    """What the processor is told: palette 1, bytes of a row of each register, rows of each."""
    told = bytearray(64)
    told[0] = 1
    for register, (rows, count) in enumerate(sizes):
        told[16 + 2 * register] = count
        told[48 + register] = rows
    return "".join(f"\\{byte:02X}" for byte in told)
