"""Compile a device's kernels into a library, once: equal kernels are found again in the cache.

The key is everything that decides the library's bytes: the text of the *scheduled* kernels (so a
changed scheduling rule changes the key), the target, and the versions of TVM and of this package.
Neither weights nor a placement are part of it. So all kernels of a network that a device can run
are compiled together, whichever of them a plan calls: devices of equal targets share a library, a
network that is placed again finds its own, and measuring a network in place compiles what is built
afterwards. Objects of single kernels are kept as well (`tvm_hetero.compiler.kernel_objects`). How
long it takes: ``python -m benchmarks.building``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import tvm
import tvm_ffi

from tvm_hetero import __version__
from tvm_hetero.compiler.kernel_objects import OPT_LEVEL
from tvm_hetero.compiler.parallel_compile import Compiler, Kernels
from tvm_hetero.devices.target import device_target
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.kernels.tir.memo import kernel_text
from tvm_hetero.platform.devices import Device
from tvm_hetero.util.cache_dir import cache_dir
from tvm_hetero.util.kept_files import is_kept

# By symbol: kernels as they came, and scheduled.
Scheduled = dict[str, "tuple[tvm.tirx.PrimFunc, tvm.tirx.PrimFunc]"]


def kernel_library(kernels: Kernels, device: Device) -> Path:
    """Schedule kernels (by symbol) for a device and compile them, or find them compiled.

    Raises
    ------
    ArtifactError
        If they do not compile; what the compiler said is quoted.
    """
    target = device_target(device)
    return compile_library(schedule_kernels(kernels, target), target)


def schedule_kernels(
    kernels: Kernels, target: tvm.target.Target, known: Scheduled | None = None
) -> dict[str, tvm.tirx.PrimFunc]:
    """Schedule kernels for `target`; what is scheduled already stays as it is.

    `known` are kernels that were scheduled for this target before, by their symbols; new ones are
    added to it. (Scheduling takes a while, and a platform's devices are often equal.)
    """
    known = {} if known is None else known
    for symbol, func in kernels.items():
        if symbol not in known or not tvm_ffi.structural_equal(known[symbol][0], func):
            result = schedule_kernel(func, target).with_attr("global_symbol", symbol)
            known[symbol] = func, result
    return {symbol: known[symbol][1] for symbol in kernels}


def compile_library(kernels: Kernels, target: tvm.target.Target) -> Path:
    """Compile scheduled kernels, each under its symbol (see `kernel_library`)."""
    with Compiler() as compiler:
        path = begin_library(compiler, kernels, target)
        compiler.finish()
    return path


def begin_library(compiler: Compiler, kernels: Kernels, target: tvm.target.Target) -> Path:
    """Where the library of these scheduled kernels is, or will be when `compiler` has finished."""
    functions = {s: f.with_attr("target", target) for s, f in sorted(kernels.items())}
    texts = {symbol: kernel_text(func) for symbol, func in functions.items()}
    path = cache_dir() / "kernels" / f"{_key(texts, target)}.so"
    if not is_kept(path):
        compiler.begin(path, functions, texts, target)
    return path


def _key(texts: Mapping[str, str], target: tvm.target.Target) -> str:
    versions = [tvm.__version__, __version__, PIPELINE, str(OPT_LEVEL)]
    named = [part for pair in sorted(texts.items()) for part in pair]
    return hashlib.sha256("\0".join([*named, str(target), *versions]).encode()).hexdigest()
