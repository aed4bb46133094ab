"""Tile registers (`kernels.cpu.amx`) in C, so that their kernels run where there are none.

`emulate` has kernels call a small library instead of the processor's instructions. What these
compute is Intel's description of them (Intel 64 and IA-32 Architectures Software Developer's
Manual, volume 2); products of bfloat16 are added in float32, in another order than the
processor's. A tile that is loaded or multiplied with other sizes than it is configured for ends the
process, and so does a thread that begins twice.
"""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tvm_hetero.kernels.convolution import amx_conv2d
from tvm_hetero.kernels.cpu import amx

_SOURCE = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static _Thread_local uint8_t tile[8][16][64], rows[8];
static _Thread_local uint16_t bytes[8];
static _Thread_local int configured;
static _Atomic int begun;
int emulated_begun(void) { return begun; }
void emulated_begin(const uint8_t *told) {
  if (configured) abort();
  configured = 1;
  ++begun;
  memset(tile, 0, sizeof tile);
  for (int t = 0; t < 8; ++t) { memcpy(&bytes[t], told + 16 + 2 * t, 2); rows[t] = told[48 + t]; }
}
void emulated_end(void) { if (!configured) abort(); configured = 0; --begun; }
void emulated_zero(int32_t t) { if (!configured) abort(); memset(tile[t], 0, sizeof tile[t]); }
void emulated_load(int32_t t, const uint8_t *place, int64_t stride) {
  emulated_zero(t);
  for (int r = 0; r < rows[t]; ++r) memcpy(tile[t][r], place + r * stride, bytes[t]);
}
void emulated_store(int32_t t, uint8_t *place, int64_t stride) {
  if (!configured) abort();
  for (int r = 0; r < rows[t]; ++r) memcpy(place + r * stride, tile[t][r], bytes[t]);
}
static float narrow(uint32_t bits) { float f; bits <<= 16; memcpy(&f, &bits, 4); return f; }
static void check(int c, int a, int b) {
  if (!configured || rows[c] != rows[a] || bytes[c] != bytes[b] || bytes[a] != 4 * rows[b]) abort();
}
void emulated_tdpbf16ps(int32_t c, int32_t a, int32_t b) {
  check(c, a, b);
  for (int m = 0; m < rows[a]; ++m)
    for (int n = 0; n < bytes[b] / 4; ++n) {
      float sum; memcpy(&sum, &tile[c][m][4 * n], 4);
      for (int k = 0; k < rows[b]; ++k)
        for (int i = 0; i < 2; ++i) {
          uint16_t x, y;
          memcpy(&x, &tile[a][m][4 * k + 2 * i], 2); memcpy(&y, &tile[b][k][4 * n + 2 * i], 2);
          sum += narrow(x) * narrow(y);
        }
      memcpy(&tile[c][m][4 * n], &sum, 4);
    }
}
static void dot(int c, int a, int b, int left_signed, int right_signed) {
  check(c, a, b);
  for (int m = 0; m < rows[a]; ++m)
    for (int n = 0; n < bytes[b] / 4; ++n) {
      int32_t sum; memcpy(&sum, &tile[c][m][4 * n], 4);
      for (int k = 0; k < 4 * rows[b]; ++k) {
        uint8_t x = tile[a][m][k], y = tile[b][k / 4][4 * n + k % 4];
        sum += (left_signed ? (int8_t)x : x) * (right_signed ? (int8_t)y : y);
      }
      memcpy(&tile[c][m][4 * n], &sum, 4);
    }
}
void emulated_tdpbuud(int32_t c, int32_t a, int32_t b) { dot(c, a, b, 0, 0); }
void emulated_tdpbsud(int32_t c, int32_t a, int32_t b) { dot(c, a, b, 1, 0); }
void emulated_tdpbusd(int32_t c, int32_t a, int32_t b) { dot(c, a, b, 0, 1); }
"""
_DECLARED = """
declare void @emulated_begin(ptr)
declare void @emulated_end()
declare void @emulated_zero(i32)
declare void @emulated_load(i32, ptr, i64)
declare void @emulated_store(i32, ptr, i64)
declare void @emulated_tdpbf16ps(i32, i32, i32)
declare void @emulated_tdpbuud(i32, i32, i32)
declare void @emulated_tdpbsud(i32, i32, i32)
declare void @emulated_tdpbusd(i32, i32, i32)
"""


@cache
def _library() -> ctypes.CDLL:
    """The registers, where every kernel's library finds them; they stay for the process."""
    folder = Path(mkdtemp(prefix="emulated_tiles"))
    source, built = folder / "tiles.c", folder / "tiles.so"
    source.write_text(_SOURCE)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", built, source], check=True)
    library = ctypes.CDLL(str(built), ctypes.RTLD_GLOBAL)
    for each in (source, built):
        each.unlink()
    folder.rmdir()
    return library


def _emulated(texts: list[str]) -> list[str]:
    """The functions' texts with calls of the library in the place of instructions."""
    text = "\n".join(texts)
    for line in {line for line in text.splitlines() if line.startswith("declare")}:
        text = text.replace(line, "")
    for name, called in (
        ("ldtilecfg", "begin"), ("tilerelease", "end"), ("tilezero", "zero"),
        ("tileloadd64", "load"), ("tilestored64", "store"),
    ):  # fmt: skip
        text = text.replace(f"@llvm.x86.{name}(", f"@emulated_{called}(")
    text = text.replace("@llvm.x86.tdp", "@emulated_tdp").replace("(i8 ", "(i32 ")
    return [_DECLARED, text.replace(", i8 ", ", i32 ")]


def held() -> int:
    """How many threads have registers that they have not let go of."""
    return int(_library().emulated_begun())


def emulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that are made from here on call the library."""
    _library()
    real = amx.tile_functions

    def functions(sizes: object, products: object) -> list[str]:
        return _emulated(real(sizes, products))

    monkeypatch.setattr(amx_conv2d, "tile_functions", functions)
