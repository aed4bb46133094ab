"""Run a model of open dimensions: each request by the executor of its size.

The size of a request follows from the shapes of its inputs. Executors are loaded when they are
first asked for, and share their weights. A size that is not built yet is built on use, if the
folder allows it: in a process of its own, one size at a time, while requests of other sizes go on;
who asked for it waits. Nothing is padded or cut: a size that cannot be served is refused.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitedTooLong
from pathlib import Path
from typing import Any

from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.errors import DeadlineError, RunError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.futures import Pending
from tvm_hetero.executor.inputs import identifier, merge_inputs, require_mapping
from tvm_hetero.executor.shared_weights import WeightPool
from tvm_hetero.processes.child_process import Worker, WorkerLost
from tvm_hetero.sizes.axes import Size, size_name
from tvm_hetero.sizes.folder import BUILDS, artifact_of, built_sizes, check_model, read_size_facts
from tvm_hetero.util.closeable import Closeable
from tvm_hetero.util.leftovers import make_folder, remove

# Longer than this no build takes that will end.
BUILD_SECONDS = 3600.0
# Executors that stay loaded. Each has threads, and memory for its intermediate tensors.
KEPT = 32


class SizedExecutor(Closeable):
    """Runs a model at the size of each request.

    >>> ex = tvm_hetero.load("net.hetero")                           # doctest: +SKIP
    >>> out = ex.run(x=np.zeros((1, 3, 48, 320), "float32"))         # doctest: +SKIP
    >>> ex.prepare(352)                  # built meanwhile             # doctest: +SKIP
    >>> ex.executor(320).benchmark(...)  # all that executors can do   # doctest: +SKIP

    Any number of threads may run and submit. Executors of several sizes share the devices, so what
    measures is for a time in which no other size runs.

    Attributes
    ----------
    facts : what the folder is (`tvm_hetero.sizes.folder.SizeFacts`).
    build : which sizes are built on use: ``never``, ``range`` or ``any``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        variant: str | None = None,
        build: str | None = None,
        kept: int = KEPT,
    ) -> None:
        """Open a folder; executors are loaded when they are needed.

        Parameters
        ----------
        variant : of each size that has it (one that was built on use has the one that runs); by
            default what the artifact says.
        build : by default what the folder says.
        kept : how many sizes stay loaded; of more, those that were used last.
        """
        self.path = Path(path)
        self.facts = read_size_facts(self.path)
        self.build = self.facts.build if build is None else build
        if self.build not in BUILDS:
            raise UsageError(f"build {self.build!r}: expected one of {', '.join(BUILDS)}")
        self._variant, self._kept = variant, kept
        self._pool = WeightPool()
        self._lock = threading.Lock()
        self._building = threading.Lock()  # one at a time: each takes all cores that it finds
        self._loads: dict[Size, Future[Executor]] = {}
        self._worker: Worker | None = None
        self._own: Path | None = None
        self._closed = False
        names = list(self.facts.open.shapes)
        short = [identifier(name) for name in names]
        self._names = {s: n for s, n in zip(short, names, strict=True) if short.count(s) == 1}

    @property
    def sizes(self) -> list[Size]:
        """The sizes that are built, each a number for each axis."""
        return built_sizes(self.path, self.facts)

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        deadline: float | None = None,
        **named: Any,
    ) -> list[Any]:
        """Run the model once (see `Executor.run`); a size that is not built is built first.

        Raises
        ------
        RunError
            If an input is missing, unknown, or of another shape or type; if the size is outside of
            the range, or cannot be built.
        DeadlineError
            If it was not done in time; what is being built goes on.
        """
        executor, given, left = self._ready(merge_inputs(inputs, named), deadline)
        return executor.run(given, deadline=left)

    def submit(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        deadline: float | None = None,
        timeout: float | None = None,
        **named: Any,
    ) -> Pending:
        """Begin a run (see `Executor.submit`); waits until its size is built."""
        executor, given, left = self._ready(merge_inputs(inputs, named), deadline)
        return executor.submit(given, deadline=left, timeout=timeout)

    async def run_async(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        deadline: float | None = None,
        **named: Any,
    ) -> list[Any]:
        """Run the model once; the event loop goes on meanwhile, be it that a size is built."""
        given = merge_inputs(inputs, named)
        end = _end_of(deadline)
        load = asyncio.shield(asyncio.wrap_future(self._load(self.size_of(given))))
        try:
            executor = await asyncio.wait_for(load, _left_until(end))
        except TimeoutError:
            raise _late(deadline) from None
        return await executor.run_async(given, deadline=_left_until(end))

    def prepare(self, *size: int) -> Future[Executor]:
        """Begin to load a size, and to build it first if need be; returns at once.

        Parameters
        ----------
        size : a number for each axis (`OpenShapes.axes`).

        Returns
        -------
        Future
            Of its executor.
        """
        axes = self.facts.open.axes
        if len(size) != len(axes):
            names = ", ".join(axis.text() for axis in axes)
            raise UsageError(f"expected {len(axes)} numbers ({names}), got {len(size)}")
        return self._load(tuple(size))

    def executor(self, *size: int) -> Executor:
        """The ordinary executor of a size, once it is there; it is closed with this one."""
        return self.prepare(*size).result()

    def size_of(self, inputs: Mapping[str, Any]) -> Size:
        """The size that a request with these inputs has.

        Raises
        ------
        RunError
            If they have none (see `OpenShapes.size_of`).
        """
        require_mapping(inputs)
        shapes: dict[str, Sequence[int]] = {}
        for name, value in inputs.items():
            if not hasattr(value, "shape"):
                raise RunError(f"input {name!r}: expected an array, got {type(value).__name__}")
            shapes[self._names.get(name, name)] = value.shape
        return self.facts.open.size_of(shapes)

    def close(self) -> None:
        """End what is being built, and stop all executors."""
        with self._lock:
            self._closed = True
            loads = list(self._loads.values())
            if self._worker is not None:
                self._worker.kill()
        for load in loads:
            if load.exception() is None:
                load.result().close()
        if self._own is not None:
            remove(self._own)

    def _ready(
        self, inputs: Mapping[str, Any], deadline: float | None
    ) -> tuple[Executor, Mapping[str, Any], float | None]:
        """The executor of a request, and the seconds that are left for it."""
        end = _end_of(deadline)
        load = self._load(self.size_of(inputs))
        try:
            executor = load.result(_left_until(end))
        except WaitedTooLong:
            raise _late(deadline) from None
        return executor, inputs, _left_until(end)

    def _load(self, size: Size) -> Future[Executor]:
        """The future of a size's executor; what failed is tried again."""
        with self._lock:
            if self._closed:
                raise RunError("the executor is closed")
            load = self._loads.pop(size, None)
            if load is not None and not (load.done() and load.exception()):
                self._loads[size] = load  # the last one: that which was used last
                return load
            self._check(size)
            self._forget_oldest()
            load = self._loads[size] = Future()
        threading.Thread(target=self._fill, args=(load, size), daemon=True).start()
        return load

    def _forget_oldest(self) -> None:
        """Make room for one more; an executor ends when no request has it any more."""
        loaded = [size for size, load in self._loads.items() if load.done()]
        for size in loaded[: max(0, len(self._loads) - self._kept + 1)]:
            del self._loads[size]

    def _check(self, size: Size) -> None:
        """Refuse a size that is not there and must not be built."""
        opened = self.facts.open
        if artifact_of(self.path, size).is_dir():
            return
        if min(size) < 1:
            raise RunError(f"size {size_name(size)}: expected 1 or more")
        if self.build != "any" and not opened.in_range(size):
            raise RunError(
                f"size {size_name(size)} is outside of what this folder serves: "
                f"{opened.refuse(size)}; resize or pad the inputs, or allow it: --build any"
            )
        if self.build == "never":
            there = ", ".join(map(size_name, self.sizes))
            raise RunError(
                f"size {size_name(size)} is not built (built: {there}), and nothing is built on "
                "use here; partition again with it, or with --build range"
            )

    def _fill(self, load: Future[Executor], size: Size) -> None:
        """In a thread of its own: load a size, or build it first."""
        try:
            place = artifact_of(self.path, size)
            if not place.is_dir():
                place = self._build(size)
            executable = self._pool.share(load_artifact(place))
            asked = self._variant if self._variant in executable.variants else None
            load.set_result(Executor(executable, asked))
        except BaseException as error:
            load.set_exception(error)

    def _build(self, size: Size) -> Path:
        """Have a size built by a process of its own."""
        with self._building:
            place = artifact_of(self.path, size)
            if place.is_dir():
                return place  # another process was quicker
            check_model(self.path, self.facts)  # at once, not after a process has begun
            question = {"folder": str(self.path), "size": size, "into": str(self._into())}
            with self._lock:
                if self._closed:
                    raise RunError("the executor is closed")
                self._worker = Worker("tvm_hetero.sizes.build_worker")
            try:
                answer = self._worker.ask(question, BUILD_SECONDS)
            except WorkerLost as error:
                answer = {"error": str(error)}
            finally:
                with self._lock:
                    self._worker.close()
                    self._worker = None
        if self._closed:
            raise RunError("the executor is closed")
        if "path" not in answer and not place.is_dir():  # another process may have been quicker
            raise RunError(f"size {size_name(size)} could not be built: {answer.get('error')}")
        return Path(answer.get("path", place))

    def _into(self) -> Path:
        """The folder that gets what is built: this one, or our own where it takes no files."""
        if os.access(self.path / "sizes", os.W_OK):
            return self.path
        if self._own is None:
            self._own = make_folder("tvm_hetero.")
        return self._own


def _end_of(deadline: float | None) -> float | None:
    return None if deadline is None else time.monotonic() + deadline


def _left_until(end: float | None) -> float | None:
    return None if end is None else end - time.monotonic()


def _late(deadline: float | None) -> DeadlineError:
    return DeadlineError(f"deadline: the size was not built within {deadline:g} s; it goes on")
