"""One object file for each kernel, compiled once: whoever needs the kernel next finds it.

What is measured is what is built: the same kernels, on a target that several devices may share, in
libraries of a few (`tvm_hetero.cost_models.kernels_alone.compile_kernels`) and of a whole network
(`tvm_hetero.compiler.parallel_compile`). Compiling is most of what either takes, linking next to
nothing. So objects are kept in the cache, each under the name of what decides its bytes: the text
of the scheduled kernel, the target, and the versions of TVM and of this package. A kernel's symbol
in its object is made of that too; in a library it has the names that the linker is told as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import tvm

from tvm_hetero import __version__
from tvm_hetero.compiler.linking import link, object_code, write_object
from tvm_hetero.kernels.cpu.compilation import PIPELINE, build
from tvm_hetero.kernels.tir.memo import kernel_text
from tvm_hetero.util.cache_dir import cache_dir, make_own_folder
from tvm_hetero.util.kept_files import is_kept, keep
from tvm_hetero.util.leftovers import make_file, remove

OPT_LEVEL = 3
# Of a digest; as many hexadecimal digits are in the name of a symbol.
_DIGITS = 32


def has_objects(target: tvm.target.Target) -> bool:
    """Whether what is compiled for a target is host code alone, which can be linked."""
    return str(target.kind.name) == "llvm"


def object_symbol(func: tvm.tirx.PrimFunc, target: tvm.target.Target) -> str:
    """The symbol that a scheduled kernel has in its object file, which is named like it."""
    versions = (tvm.__version__, __version__, PIPELINE, str(OPT_LEVEL))
    what = "\0".join([kernel_text(func), str(target), *versions])
    return f"kernel_{hashlib.sha256(what.encode()).hexdigest()[:_DIGITS]}"


def compile_object(func: tvm.tirx.PrimFunc, target: tvm.target.Target) -> Path:
    """The object file of a scheduled kernel, from the cache or compiled now.

    Raises
    ------
    OSError
        If there is no room for it.
    RuntimeError, ValueError, TypeError
        What TVM raises where a kernel cannot be compiled.
    """
    symbol = object_symbol(func, target)
    path = cache_dir() / "objects" / f"{symbol}.o"
    if is_kept(path):
        return path
    named = func.with_attr("global_symbol", symbol).with_attr("target", target)
    with tvm.transform.PassContext(opt_level=OPT_LEVEL):
        code = object_code(build(tvm.IRModule({symbol: named}), target))
    # Whoever is killed leaves the file that is made next: the less there is to do, the better.
    make_own_folder(path.parent)
    name = make_file("compile.", ".o", path.parent)
    try:
        write_object(code, name)
        keep(name, path)
    finally:
        remove(name)
    return path


def link_objects(objects: Mapping[str, Path], path: Path, target: tvm.target.Target) -> None:
    """Link kernels (object files that `compile_object` gave, by their symbols in the library).

    Raises
    ------
    PlatformError
        If no linker for the target is here.
    RuntimeError
        If the linker fails; what it said is quoted.
    """
    names = {symbol: objects[symbol].stem for symbol in sorted(objects)}
    link(list(dict.fromkeys(objects[symbol] for symbol in names)), path, target, names)
