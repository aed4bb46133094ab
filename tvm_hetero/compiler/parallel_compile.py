"""Compile libraries of kernels on all cores that this process may use.

LLVM works on a module with one core, and the libraries of a network are seconds of its work. So
kernels are dealt into groups of about equal work, threads compile a group at a time into an object
file (TVM's calls let go of Python's lock while they work), and the linker puts the objects
together. Who has scheduled one device's kernels begins their library and goes on with the next.

Which kernels stand together depends on them alone, not on the machine: a library is the same
whatever number of cores compiled it.
"""

from __future__ import annotations

import heapq
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import tvm

from tvm_hetero.compiler.linking import export_library, link, write_object
from tvm_hetero.errors import ArtifactError
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.platform.host import available_cores
from tvm_hetero.util.cache_dir import cache_dir

OPT_LEVEL = 3
# What compiling takes grows with a kernel's text; a short one takes as long as so many letters.
_LEAST = 10_000
# Letters that are worth an object of their own, and the most objects.
_GROUP, _MOST_GROUPS = 60_000, 16

# By symbol.
Kernels = Mapping[str, "tvm.tirx.PrimFunc"]


def deal(texts: Mapping[str, str]) -> list[list[str]]:
    """Symbols in groups of about equal work.

    Parameters
    ----------
    texts : of each kernel its TVMScript, by symbol.
    """
    works = {symbol: _LEAST + len(text) for symbol, text in texts.items()}
    count = max(1, min(_MOST_GROUPS, sum(works.values()) // _GROUP))
    groups: list[list[str]] = [[] for _ in range(count)]
    least = [(0, number) for number in range(count)]
    for symbol in sorted(works, key=lambda symbol: (-works[symbol], symbol)):
        work, number = heapq.heappop(least)
        groups[number].append(symbol)
        heapq.heappush(least, (work + works[symbol], number))
    return [sorted(group) for group in groups]


@dataclass(frozen=True)
class _Begun:
    """A library whose objects are being compiled, in a folder of its own."""

    target: tvm.target.Target
    folder: Path
    objects: list[Future[Path]]


class Compiler:
    """Compiles libraries side by side; a context that leaves no thread and no file behind."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(len(available_cores()))
        self._begun: dict[Path, _Begun] = {}

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for begun in self._begun.values():
            shutil.rmtree(begun.folder, ignore_errors=True)

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
            path.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix="compile.", dir=path.parent))
        objects: list[Future[Path]] = []
        self._begun[path] = _Begun(target, folder, objects)
        # What is not host code alone is one library from the start.
        host = target.kind.name == "llvm"
        for number, group in enumerate(deal(texts) if host else [sorted(texts)]):
            mod = tvm.IRModule({symbol: kernels[symbol] for symbol in group})
            file = folder / (f"{number}.o" if host else path.name)
            objects.append(self._pool.submit(_compile, mod, target, file))

    def finish(self) -> None:
        """Wait for all libraries; each appears whole.

        Raises
        ------
        ArtifactError
            If one does not compile; what the compiler said is quoted.
        """
        for path, begun in self._begun.items():
            with _failing(begun.target):
                files = [future.result() for future in begun.objects]
                library = begun.folder / path.name
                if files != [library]:
                    link(files, library, begun.target)
                os.replace(library, path)


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


def _compile(mod: tvm.IRModule, target: tvm.target.Target, path: Path) -> Path:
    """Compile into an object file or, by the name's suffix, into a library."""
    with tvm.transform.PassContext(opt_level=OPT_LEVEL):
        built = build(mod, target)
    if path.suffix == ".o":
        write_object(built, path)
    else:
        export_library(built, path, target)
    return path
