"""From compiled kernels to a shared library, for this machine or for a board of another kind.

What LLVM compiles for another processor this machine's linker cannot link. A cross compiler of the
target's own triple can (``aarch64-linux-gnu-g++``, a package of most distributions).
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_hetero.errors import PlatformError
from tvm_hetero.util.leftovers import temporary_folder

if TYPE_CHECKING:
    from tvm.target import Target

# What TVM puts before the name of a function that can be looked up in a library.
_PREFIX = "__tvm_ffi_"
# Other names of this machine's own architecture, in triples.
_ALIKE = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}


def export_library(built: Any, path: Path, target: Target) -> None:
    """Link what `tvm.tirx.build` gave into a library that the target's machine can load.

    Raises
    ------
    PlatformError
        If no linker for it is here.
    OSError
        If there is no room for it.
    RuntimeError
        If the linker fails; what it said is quoted.
    """
    if built.imports:  # device code, which TVM packs into the library
        import tvm

        tvm.runtime.Executable(built).export_library(str(path), fcompile=_linking(target))
        return
    with temporary_folder("objects.", path.parent) as folder:
        file = folder / "kernels.o"
        write_object(object_code(built), file)
        link([file], path, target)


def object_code(built: Any) -> bytes:
    """Compile host code into an object file's bytes.

    LLVM ends the process where it cannot write, as on a disk that is full; so it writes into
    memory.
    """
    with open(os.memfd_create("tvm_hetero.object"), "rb") as memory:
        built.write_to_file(f"/proc/self/fd/{memory.fileno()}", "o")
        return memory.read()


def write_object(code: bytes, path: Path) -> None:
    """Write an object file.

    Raises
    ------
    OSError
        If there is no room for it.
    """
    path.write_bytes(code)


def link(
    objects: Sequence[Path], path: Path, target: Target, names: Mapping[str, str] | None = None
) -> None:
    """Link object files of host code into a library that the target's machine can load.

    Parameters
    ----------
    objects, path, target : what is linked, into what, for what.
    names : further symbols of kernels, and which kernel of the objects each of them is.

    Raises
    ------
    PlatformError
        If no linker for it is here.
    RuntimeError
        If the linker fails; what it said is quoted.
    """
    further = [
        f"-Wl,--defsym={_PREFIX}{name}={_PREFIX}{kernel}" for name, kernel in (names or {}).items()
    ]
    _linking(target)(str(path), [str(file) for file in objects], options=further)


def _linking(target: Target) -> Callable[..., None]:
    """What links files into a library, as TVM wants it.

    Raises
    ------
    PlatformError
        If no linker for the target is here.
    """
    from tvm.support import cc

    linker = linker_of(target)
    made: Callable[..., None] = cc.create_shared if linker is None else cc.cross_compiler(linker)
    return made


def linker_of(target: Target) -> str | None:
    """The compiler that links for a target; None where TVM's own choice does.

    Raises
    ------
    PlatformError
        If no linker for it is here.
    """
    triple = _triple(target)
    architecture = triple.split("-")[0]
    if not triple or _plain(architecture) == _plain(platform.machine()):
        own_compiler()
        return None
    # Compilers leave out who made the machine: aarch64-unknown-linux-gnu.
    parts = [part for part in triple.split("-") if part not in ("unknown", "pc", "none")]
    names = [f"{'-'.join(parts)}-{compiler}" for compiler in ("g++", "gcc")]
    for name in names:
        if found := shutil.which(name):
            return found
    raise PlatformError(
        f"kernels for {triple!r} cannot be linked here: there is no {names[0]} on the PATH; "
        f"install the cross compiler (Debian: g++-{'-'.join(parts).replace('_', '-')})"
    )


def own_compiler() -> str:
    """The compiler that links kernels for this machine.

    Raises
    ------
    PlatformError
        If there is none.
    """
    from tvm.support import cc

    found = cc.get_cc()
    if found is None:
        raise PlatformError(
            "there is no C++ compiler (g++, gcc, clang++, clang) on the PATH, which links kernels; "
            "install one (Debian: apt-get install g++), or name it in the variable CXX"
        )
    return str(found)


def _triple(target: Target) -> str:
    """The triple of the processor that loads the library: the host's, if the target has one."""
    host = target.host if target.host is not None else target
    return str(host.attrs.get("mtriple", "") or "")


def _plain(architecture: str) -> str:
    return _ALIKE.get(architecture.lower(), architecture.lower())
