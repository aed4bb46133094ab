"""What a core can do: multiply-adds a second, and bytes a second copied or read, by loops in C.

Compiled with ``gcc -O3 -march=native`` when they are needed. The loops:

    fma     ten independent chains of vectors of the widest registers, all in registers
    copy    ``y[i] = x[i]``; bytes read and bytes written both count
    read    the sum of ``x[i]`` in eight vectors

Caches make bytes a question of size: copying and reading are measured for working sets from 16 KB
to 256 MB, and a kernel is compared with the size next to its own.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .case import Bound

_SOURCE = r"""
#include <stddef.h>
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float vec __attribute__((vector_size(BYTES)));
enum { CHAINS = 10, PARTS = 8, LANES = BYTES / 4 };
static volatile float sink;
double fma_loop(size_t steps) {
  vec a[CHAINS], x = {0}, y = {0};
  x += 0.5f; y += 0.25f;
  for (int k = 0; k < CHAINS; k++) a[k] = x * (float)k;
  for (size_t i = 0; i < steps; i++) {
    __asm__ volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 16
    for (int k = 0; k < CHAINS; k++) a[k] = a[k] * x + y;
  }
  for (int k = 1; k < CHAINS; k++) a[0] += a[k];
  sink = a[0][0];
  return 2.0 * steps * CHAINS * LANES;
}
void copy_loop(float *restrict y, const float *restrict x, size_t n, size_t times) {
  while (times--) {
    for (size_t i = 0; i < n; i++) y[i] = x[i];
    __asm__ volatile("" ::: "memory");
  }
}
void read_loop(const float *x, size_t n, size_t times) {
  vec a[PARTS] = {{0}};
  const vec *v = (const vec *)x;
  while (times--) {
    for (size_t i = 0; i + PARTS <= n / LANES; i += PARTS)
#pragma GCC unroll 16
      for (int k = 0; k < PARTS; k++) a[k] += v[i + k];
    __asm__ volatile("" ::: "memory");
  }
  for (int k = 1; k < PARTS; k++) a[0] += a[k];
  sink = a[0][0];
}
"""
# No memcpy in place of the copy loop: it would use other stores than a kernel does.
# Nor -ffast-math: a library that is linked with it makes the whole process flush denormals to zero.
_FLAGS = ("-O3", "-march=native", "-fno-tree-loop-distribute-patterns")
_SIZES = tuple(1 << shift for shift in range(14, 29))
_SECONDS = 0.02  # for each size: the least time of as many calls as fit
_PASSES = 16 << 20  # bytes that one call goes over at least, so that calling costs nothing


@dataclass(frozen=True)
class Peaks:
    """GFLOP/s, and GB/s by the bytes of the working set."""

    compute: float
    copy: dict[int, float]
    read: dict[int, float]

    def of(self, bound: Bound, bytes_: float) -> float:
        """The peak that a kernel with this bound and so many bytes is to be measured by."""
        if bound == "compute":
            return self.compute
        table = self.copy if bound == "copy" else self.read
        return table[min(table, key=lambda size: abs(np.log(size / max(bytes_, 1.0))))]


@lru_cache(maxsize=1)
def measure_peaks() -> Peaks:
    """Measure this thread's core; takes about a second."""
    library = _compiled()
    source, target = _aligned(_SIZES[-1]), _aligned(_SIZES[-1] // 2)

    def copied(size: int) -> float:
        times = max(1, _PASSES // size)
        floats = size // 8  # half of the working set is read, half is written
        arguments = (target, source, ctypes.c_size_t(floats), ctypes.c_size_t(times))
        return size * times / _least(lambda: library.copy_loop(*arguments), _SECONDS)

    def read(size: int) -> float:
        times = max(1, _PASSES // size)
        arguments = (source, ctypes.c_size_t(size // 4), ctypes.c_size_t(times))
        return size * times / _least(lambda: library.read_loop(*arguments), _SECONDS)

    return Peaks(
        computing(),
        {size: copied(size) / 1e9 for size in _SIZES},
        {size: read(size) / 1e9 for size in _SIZES},
    )


def computing() -> float:
    """GFLOP/s of this thread's core."""
    library, steps = _compiled(), ctypes.c_size_t(200_000)
    least = _least(lambda: library.fma_loop(steps), 5 * _SECONDS)
    return float(library.fma_loop(steps)) / least / 1e9


def copying(size: int) -> Callable[[], object]:
    """What copies once over a working set of so many bytes, half read and half written."""
    library, half = _compiled(), ctypes.c_size_t(size // 8)
    arguments = (_aligned(size // 2), _aligned(size // 2), half, ctypes.c_size_t(1))
    return lambda: library.copy_loop(*arguments)


def reading(size: int) -> Callable[[], object]:
    """What reads a working set of so many bytes once; other threads of Python go on meanwhile."""
    library = _compiled()
    arguments = (_aligned(size), ctypes.c_size_t(size // 4), ctypes.c_size_t(1))
    return lambda: library.read_loop(*arguments)


@lru_cache(maxsize=1)
def _compiled() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "peaks.c"), Path(folder, "peaks.so")
        source.write_text(_SOURCE, encoding="ascii")
        compiler = os.environ.get("CC", "gcc")
        command = [compiler, *_FLAGS, "-shared", "-fPIC", str(source), "-o", str(library)]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(library))
    loaded.fma_loop.restype = ctypes.c_double
    return loaded


_KEPT: list[NDArray[np.float32]] = []


def _aligned(size: int) -> ctypes.c_void_p:
    """So many bytes of ones at an address that vectors may be read from."""
    array = np.ones(size // 4 + 16, np.float32)
    _KEPT.append(array)
    return ctypes.c_void_p(-(-array.ctypes.data // 64) * 64)


def _least(function: Callable[[], object], seconds: float) -> float:
    """Least thread CPU time of a call."""
    function()
    best, began = float("inf"), time.thread_time()
    while time.thread_time() - began < seconds:
        start = time.thread_time()
        function()
        best = min(best, time.thread_time() - start)
    return best
