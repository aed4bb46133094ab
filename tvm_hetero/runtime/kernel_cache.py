"""Compile a device's module into a library, once: equal modules are found again in the cache.

The key is everything that decides the library's bytes: the text of the *scheduled* module (so a
changed scheduling rule changes the key), the target, and the versions of TVM and of this package.
The weights are no part of it: they are parameters of the module's functions.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tvm_hetero import __version__
from tvm_hetero.cache import cache_dir
from tvm_hetero.errors import ArtifactError
from tvm_hetero.kernels import schedule_kernel

OPT_LEVEL = 3


def schedule_kernels(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Schedule every kernel of a module for `target`."""
    scheduled = {}
    for gvar, func in mod.functions.items():
        if isinstance(func, tvm.tirx.PrimFunc):
            func = schedule_kernel(func, target).with_attr("target", target)
        scheduled[gvar] = func
    return tvm.IRModule(scheduled, attrs=mod.attrs, global_infos=mod.global_infos)


def compile_module(mod: tvm.IRModule, target: tvm.target.Target) -> Path:
    """Compile a module of segments for one target, or find it compiled; returns the library.

    Raises
    ------
    ArtifactError
        If it does not compile; what the compiler said is quoted.
    """
    mod = schedule_kernels(mod, target)
    path = cache_dir() / "kernels" / f"{_key(mod, target)}.so"
    if path.exists():
        return path
    path.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="compile.", dir=path.parent))
    try:
        with tvm.transform.PassContext(opt_level=OPT_LEVEL):
            executable = tvm.compile(mod, target)
        executable.export_library(str(folder / path.name))
        os.replace(folder / path.name, path)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise ArtifactError(f"the module does not compile for {target}: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return path


def _key(mod: tvm.IRModule, target: tvm.target.Target) -> str:
    parts = [mod.script(show_meta=True), str(target), tvm.__version__, __version__, str(OPT_LEVEL)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load_library(path: Path) -> Any:
    """Load a compiled library.

    Raises
    ------
    ArtifactError
        If it is missing or damaged.
    """
    try:
        # Under a name of its own: glibc gives back the library that was loaded from a name before,
        # even if another file stands there now (an artifact that was built again). And not through
        # tvm.runtime.load_module, which looks through the link.
        with tempfile.TemporaryDirectory(prefix="tvm_hetero.") as folder:
            name = Path(folder) / path.name
            name.symlink_to(path.resolve())
            return tvm_ffi.load_module(name)
    except (RuntimeError, ValueError, OSError) as error:
        raise ArtifactError(f"{path}: the library does not load: {error}; build again") from None


def make_vm(library: Any, device: tvm.runtime.Device) -> relax.VirtualMachine:
    """A virtual machine of its own for one worker: one must not be used by two threads."""
    return relax.VirtualMachine(library, device)
