"""Many kernels into one shared library, and what to do when one of them does not compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_hetero.cost_models.store import KernelKey

if TYPE_CHECKING:
    from tvm.target import Target
    from tvm.tirx import PrimFunc


@dataclass
class Compiled:
    """Compiled kernels.

    Attributes
    ----------
    libraries : shared libraries; one, unless some kernel could not be compiled.
    symbols : the name of each compiled kernel in its library.
    failed : why each of the others could not be compiled.
    """

    libraries: list[Path] = field(default_factory=list)
    symbols: dict[KernelKey, str] = field(default_factory=dict)
    failed: dict[KernelKey, str] = field(default_factory=dict)


def compile_kernels(
    funcs: Mapping[KernelKey, PrimFunc], target: Target, folder: Path
) -> Compiled:
    """Compile scheduled functions for one target in one build.

    A build fails as a whole. If it does, its halves are built apart, and so on, until the
    functions at fault stand alone.

    Parameters
    ----------
    funcs : what to compile.
    target : for which target.
    folder : where the libraries are written.
    """
    result = Compiled()
    pending: list[Sequence[KernelKey]] = [list(funcs)] if funcs else []
    while pending:
        keys = pending.pop()
        symbols = {key: f"kernel_{len(result.symbols) + i}" for i, key in enumerate(keys)}
        library = folder / f"kernels_{len(result.libraries)}.so"
        try:
            _build({symbols[key]: funcs[key] for key in keys}, target, library)
        except Exception as error:  # whatever TVM, LLVM or the linker raise
            if len(keys) == 1:
                result.failed[keys[0]] = _reason(error)
            else:
                half = len(keys) // 2
                pending += [keys[half:], keys[:half]]
        else:
            result.libraries.append(library)
            result.symbols.update(symbols)
    return result


def _build(funcs: Mapping[str, PrimFunc], target: Target, library: Path) -> None:
    import tvm

    module = tvm.IRModule(
        {name: func.with_attr("global_symbol", name) for name, func in funcs.items()}
    )
    built = tvm.tirx.build(module, target=target)
    tvm.runtime.Executable(built).export_library(str(library))


def _reason(error: Exception) -> str:
    """The last line of a message; TVM puts the C++ stack above it."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
