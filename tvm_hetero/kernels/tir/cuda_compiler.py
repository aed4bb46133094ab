"""How code for CUDA is compiled: by nvcc, with the arithmetic that the model asks for.

Fast mathematics
    TVM takes NVRTC unless told otherwise, which needs another package (``cuda-bindings``), and
    asks both compilers for fast mathematics: ``sinf`` of a few instructions that is wrong for
    large arguments, divisions and roots that are not rounded, denormals that are zeros. What a
    GPU computes would not be what the CPU beside it does. Only of nvcc can that be taken back.
    All this is told by environment variables, which TVM reads while it compiles; who sets one
    has his way.

Pointers that alias
    TVM tells nvcc that no two pointers of a kernel reach the same memory (``__restrict__``). That
    is true, but nvcc 13.0 makes of ``c ? x[i] : sums[j]`` one load from either address, and since
    nothing writes to ``x``, a load past the coherent cache (``ld.global.nc``): of ``sums``, which
    the kernel has just written, it finds what was there before. The index of the greatest value,
    grouped convolutions and products whose sums are in global memory were wrong. Without the
    promise there are no such loads.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import tvm
import tvm_ffi
from tvm import tirx

from tvm_hetero.errors import PlatformError

if TYPE_CHECKING:
    from tvm.target import Target

_COMPILER, _EXACT = "TVM_CUDA_COMPILE_MODE", "TVM_CUDA_NVCC_NO_FAST_MATH"


@contextmanager
def exact_cuda(target: Target) -> Iterator[None]:
    """Have TVM compile for CUDA by nvcc without fast mathematics; nothing for other targets.

    Where TVM's runtime for CUDA is not loaded (there is no driver) it keeps the source and asks no
    compiler.

    Raises
    ------
    PlatformError
        If there is no nvcc, and the environment names no other compiler.
    """
    if str(target.kind.name) != "cuda":
        yield
        return
    if _COMPILER not in os.environ and _runtime_is_loaded() and shutil.which("nvcc") is None:
        raise PlatformError(
            "kernels for CUDA are compiled by nvcc, which is not on the PATH: install CUDA's "
            "toolkit, or add its folder bin to the PATH, or leave the GPU out of the platform"
        )
    ours = {_COMPILER: "nvcc", _EXACT: "1"}
    ours = {name: value for name, value in ours.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        with target:  # else TVM looks for a GPU and compiles for that
            yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


@tirx.transform.prim_func_pass(opt_level=0, name="MayAlias")  # type: ignore[untyped-decorator]
def may_alias(
    func: tirx.PrimFunc, _mod: tvm.IRModule, _context: tvm.transform.PassContext
) -> tirx.PrimFunc:
    """A device's function without the promise that its pointers do not alias."""
    return func.without_attr("tirx.noalias")


def _runtime_is_loaded() -> bool:
    return tvm_ffi.get_global_func("ffi.Module.create.cuda", allow_missing=True) is not None
