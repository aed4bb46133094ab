"""Many kernels into shared libraries, on several cores, and what to do when one does not compile.

Compiling is most of what profiling takes (`python -m benchmarks.profiling` prints the parts). So
the kernels are cut into small shares, of which one at fault is soon found, and this process and
some children (`profile_worker`) each take one after the other. (Threads do not help with small
shares: two of them took longer than one. With a network's whole library they do:
`compiler.parallel_compile`.) The kernels' objects stay in the cache, where a build finds them. One
of the children measures afterwards, having loaded TVM meanwhile: one that is started only then is
waited for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from tvm_hetero.compiler.kernel_objects import compile_object, has_objects, link_objects
from tvm_hetero.compiler.linking import export_library
from tvm_hetero.cost_models.store import KernelKey
from tvm_hetero.errors import ProfileError
from tvm_hetero.processes.child_process import Worker, WorkerLost
from tvm_hetero.util.cache_dir import cache_dir
from tvm_hetero.util.exhausted import exhausted

if TYPE_CHECKING:
    from tvm.target import Target
    from tvm.tirx import PrimFunc

# Kernels a share: few, so that no one waits long for the last one, but no more than so many
# shares for each who works.
_SHARE = 4
_SHARES_EACH = 6
_SHARE_SECONDS = 300.0
_TARGET = "tvm_hetero.target"
# On functions for CPUs that LLVM is to compile as they are written.
UNOPTIMIZED = "tvm_hetero.unoptimized"

# Builds a library of functions (by symbol), or raises.
_Build = Callable[[Mapping[str, "PrimFunc"], Path], None]


@dataclass
class Compiled:
    """Compiled kernels.

    Attributes
    ----------
    libraries : shared libraries, with a few kernels each.
    symbols : the name of each compiled kernel, unique over all libraries.
    failed : why each of the others could not be compiled.
    """

    libraries: list[Path] = field(default_factory=list)
    symbols: dict[KernelKey, str] = field(default_factory=dict)
    failed: dict[KernelKey, str] = field(default_factory=dict)


def compile_kernels(
    funcs: Mapping[KernelKey, PrimFunc],
    target: Target,
    folder: Path,
    helpers: Sequence[Worker] = (),
    tell: Callable[[int], None] = lambda done: None,
    first: int = 0,
) -> Compiled:
    """Compile scheduled functions for one target.

    A build fails as a whole. If one does, its halves are built apart, and so on, until the
    functions at fault stand alone.

    Parameters
    ----------
    funcs : what to compile.
    target : for which target.
    folder : where the libraries are written.
    helpers : children that take a part of the work; the work of one that is lost is done here.
    tell : called now and then, in this thread, with the number of functions that are done.
    first : the number of the first symbol, for libraries that stand beside others.

    Raises
    ------
    ProfileError
        There is no room for the files, or no more of them may be opened: no fault of a kernel's.
    """
    share = max(_SHARE, len(funcs) // (_SHARES_EACH * (1 + len(helpers))))
    job = _CompileJob(funcs, folder, share, first)
    # Daemons: who interrupts us ends the children and does not wait for these.
    threads = [
        Thread(target=job.work, args=(_in_child(helper, target),), daemon=True)
        for helper in helpers
    ]
    for thread in threads:
        thread.start()

    def build(functions: Mapping[str, PrimFunc], library: Path) -> None:
        _build(functions, target, library)
        tell(job.done)

    job.work(build)
    for thread in threads:
        thread.join()
    job.work(build)  # what a lost helper left
    if job.exhausted is not None:
        raise ProfileError(
            f"kernels cannot be compiled to be measured: {job.exhausted}. Their files lie in "
            f"{folder} and {cache_dir()}; make room there, or name other folders in TMPDIR and "
            "TVM_HETERO_CACHE"
        )
    tell(job.done)
    return job.result


class _CompileJob:
    """Shares that wait to be built, and what has become of the others."""

    def __init__(
        self, funcs: Mapping[KernelKey, PrimFunc], folder: Path, share: int, first: int
    ) -> None:
        self.result = Compiled()
        self.exhausted: str | None = None
        self._funcs = funcs
        self._folder = folder
        self._symbols = {key: f"kernel_{i}" for i, key in enumerate(funcs, first)}
        self._numbers = itertools.count()
        self._waiting: SimpleQueue[Sequence[KernelKey]] = SimpleQueue()
        keys = list(funcs)
        for start in range(0, len(keys), share):
            self._waiting.put(keys[start : start + share])

    @property
    def done(self) -> int:
        """How many functions are built, or known to fail."""
        return len(self.result.symbols) + len(self.result.failed)

    def work(self, build: _Build) -> None:
        """Build shares until none waits, or `build` is lost, or there is no room for any."""
        while self.exhausted is None:
            try:
                keys = self._waiting.get_nowait()
            except Empty:
                return
            library = self._folder / f"kernels_{next(self._numbers)}.so"
            try:
                build({self._symbols[key]: self._funcs[key] for key in keys}, library)
            except WorkerLost:
                self._waiting.put(keys)
                return
            except Exception as error:  # whatever TVM, LLVM or the linker raise
                self.exhausted = self.exhausted or exhausted(error)
                self._failed(keys, error)
            else:
                self.result.libraries.append(library)
                self.result.symbols.update((key, self._symbols[key]) for key in keys)

    def _failed(self, keys: Sequence[KernelKey], error: Exception) -> None:
        if len(keys) == 1:
            self.result.failed[keys[0]] = _reason(error)
        else:
            half = len(keys) // 2
            self._waiting.put(keys[:half])
            self._waiting.put(keys[half:])


def build_file(module: str, library: str) -> None:
    """Compile the functions of a file that `compile_kernels` wrote for a child."""
    import tvm

    with open(module, encoding="utf-8") as file:
        loaded = tvm.ir.load_json(file.read())
    target = loaded.attrs[_TARGET]
    functions = {gv.name_hint: func for gv, func in loaded.functions_items()}
    _build(functions, target, Path(library))


def _in_child(child: Worker, target: Target) -> _Build:
    """Builds as `_build` does, in a child."""

    def build(functions: Mapping[str, PrimFunc], library: Path) -> None:
        import tvm

        module = tvm.IRModule(dict(functions)).with_attr(_TARGET, target)
        file = library.with_suffix(".json")
        file.write_text(tvm.ir.save_json(module), encoding="utf-8")
        question = {"ask": "compile", "module": str(file), "library": str(library)}
        try:
            answer = child.ask(question, _SHARE_SECONDS)
        except (OSError, ValueError) as error:  # it was closed: we are being interrupted
            raise WorkerLost(str(error)) from None
        if "error" in answer:
            raise ValueError(answer["error"])

    return build


def _build(funcs: Mapping[str, PrimFunc], target: Target, library: Path) -> None:
    if has_objects(target):
        objects = {n: compile_object(f, _target_of(f, target)) for n, f in funcs.items()}
        link_objects(objects, library, target)
        return
    import tvm

    from tvm_hetero.kernels.cpu.compilation import build

    module = tvm.IRModule(
        {name: func.with_attr("global_symbol", name) for name, func in funcs.items()}
    )
    export_library(build(module, target), library, target)


def _target_of(func: PrimFunc, target: Target) -> Target:
    import tvm

    if func.attrs is None or not func.attrs.get(UNOPTIMIZED):
        return target
    return tvm.target.Target({**target.export(), "opt-level": 0})


def _reason(error: Exception) -> str:
    """The last line of a message; TVM puts the C++ stack above it."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
