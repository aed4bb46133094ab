"""Compile libraries of kernels on all cores that this process may use.

LLVM works on a module with one core, and the libraries of a network are seconds of its work. So
threads compile a kernel at a time into an object file (`tvm_hetero.compiler.kernel_objects`; TVM's
calls let go of Python's lock while they work), the longest first, and the linker puts the objects
together. Who has scheduled one device's kernels begins their library and goes on with the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

import tvm

from tvm_hetero.compiler.kernel_objects import (
    OPT_LEVEL,
    compile_object,
    has_objects,
    link_objects,
)
from tvm_hetero.compiler.linking import export_library
from tvm_hetero.errors import ArtifactError
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.platform.host import cores_at_once
from tvm_hetero.util.cache_dir import cache_dir, make_own_folder
from tvm_hetero.util.kept_files import keep
from tvm_hetero.util.leftovers import make_folder, remove

# In place of a symbol: a library that is compiled as a whole.
_WHOLE = ""

# By symbol.
Kernels = Mapping[str, "tvm.tirx.PrimFunc"]


@dataclass(frozen=True)
class _Begun:
    """A library that is being compiled, in a folder of its own.

    `objects` are the files of its kernels by symbol; where those are not host code alone, there is
    but the library, and it has no symbol.
    """

    target: tvm.target.Target
    folder: Path
    objects: dict[str, Future[Path]]


class Compiler:
    """Compiles libraries side by side; a context that leaves no thread and no file behind.

    `tell` hears in any thread how many kernels are compiled, of how many that are begun.
    """

    def __init__(self, tell: Callable[[int, int], None] | None = None) -> None:
        self._pool = ThreadPoolExecutor(cores_at_once())
        self._begun: dict[Path, _Begun] = {}
        self._tell, self._counting = tell, Lock()
        self._kernels = self._compiled = 0

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for begun in self._begun.values():
            remove(begun.folder)

    def begin(
        self, path: Path, kernels: Kernels, texts: Mapping[str, str], target: tvm.target.Target
    ) -> None:
        """Begin the library that `finish` will put at `path`; one that is begun goes on.

        Parameters
        ----------
        kernels, texts : scheduled kernels and their TVMScript, by symbol.

        Raises
        ------
        ArtifactError
            If there is no room for its files.
        """
        if path in self._begun:
            return
        with _failing(target):
            make_own_folder(path.parent)
            folder = make_folder("compile.", path.parent)
        objects: dict[str, Future[Path]] = {}
        self._begun[path] = _Begun(target, folder, objects)
        if not has_objects(target):
            objects[_WHOLE] = self._submit(_compile_whole, kernels, target, folder / path.name)
            return
        for symbol in sorted(kernels, key=lambda symbol: (-len(texts[symbol]), symbol)):
            objects[symbol] = self._submit(compile_object, kernels[symbol], target)

    def _submit(self, work: Callable[..., Path], *given: Any) -> Future[Path]:
        with self._counting:
            self._kernels += 1
        future = self._pool.submit(work, *given)
        future.add_done_callback(self._note)
        return future

    def _note(self, _: Future[Path]) -> None:
        with self._counting:
            self._compiled += 1
            if self._tell is not None:
                self._tell(self._compiled, self._kernels)

    def finish(self) -> None:
        """Wait for all libraries; each appears whole.

        Raises
        ------
        ArtifactError
            If one does not compile; what the compiler said is quoted.
        """
        for path, begun in self._begun.items():
            with _failing(begun.target):
                files = {symbol: future.result() for symbol, future in begun.objects.items()}
                library = begun.folder / path.name
                if _WHOLE not in files:
                    link_objects(files, library, begun.target)
                keep(library, path)


@contextmanager
def _failing(target: tvm.target.Target) -> Iterator[None]:
    """Errors of compilers, linkers and files as ours."""
    try:
        yield
    except OSError as error:
        raise ArtifactError(
            f"the kernels compiled for {target} cannot be written to {cache_dir()}: {error}; make "
            "room there, or name another folder in TVM_HETERO_CACHE"
        ) from error
    except (RuntimeError, ValueError, TypeError) as error:
        raise ArtifactError(f"the kernels do not compile for {target}: {error}") from error


def _compile_whole(kernels: Kernels, target: tvm.target.Target, path: Path) -> Path:
    """Compile kernels into a library: what is not host code alone is one from the start."""
    with tvm.transform.PassContext(opt_level=OPT_LEVEL):
        export_library(build(tvm.IRModule(dict(kernels)), target), path, target)
    return path
