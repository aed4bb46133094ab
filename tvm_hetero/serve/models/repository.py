"""The models that are served, by name and version, and how they come and go.

A new version is loaded aside, in a thread, and has to compute as the one before (`verify`) before
it is let in; then it takes what comes. The old one is closed when no request that has found it is
left. A load that fails changes nothing, and a client who hangs up does not end the load that it
asked for. Loads and unloads of one name are done one after the other, in the order they came.
"""

from __future__ import annotations

import asyncio
import ctypes
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tvm_hetero.errors import HeteroError, UsageError
from tvm_hetero.serve.core.refusal import (
    DRAINING,
    NOT_READY,
    QUEUE_FULL,
    RefusedError,
    UnknownModelError,
)
from tvm_hetero.serve.models.adapted_share import Adaptation
from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.models.load_thread import in_thread
from tvm_hetero.serve.models.model_pool import ModelPool, NoPool
from tvm_hetero.serve.models.open_model import open_model
from tvm_hetero.serve.models.served_decoder import ServedDecoder
from tvm_hetero.serve.models.served_model import (
    LOADING,
    READY,
    UNAVAILABLE,
    UNLOADING,
    ServedModel,
    Standing,
)
from tvm_hetero.serve.models.tensor_model import TensorModel
from tvm_hetero.serve.models.verify import GoldenRun, verify
from tvm_hetero.util.quote import quote

_LOOKS = 0.005  # seconds between two looks at whether a model is idle
_MOST_CHANGES = 8  # of one name that wait for each other
_HELD = 60.0  # seconds for which who has found a model can keep it from being closed
T = TypeVar("T")


class Repository:
    """Names and what stands behind them. For the event loop's thread, but for loading.

    Parameters
    ----------
    slo : seconds by name in which queries shall be answered.
    pool : told of models before they are let in (in the loading thread), and when they have gone.
    adaptation : of models that are to be adapted while they are served; None: none are.
    """

    def __init__(
        self,
        slo: Mapping[str, float] | None = None,
        pool: ModelPool | None = None,
        adaptation: Adaptation | None = None,
    ) -> None:
        self._slo = dict(slo or {})
        self._pool = pool or NoPool()
        self._adaptation = adaptation
        self._standings: dict[str, Standing] = {}
        self._paths: dict[str, tuple[Path, ...]] = {}
        self._placed: dict[str, ServedDecoder | None] = {}  # None: it was loaded
        self._golden: dict[str, GoldenRun] = {}
        self._versions: dict[str, int] = {}  # of the newest that was ever loaded
        self._locks: dict[str, asyncio.Lock] = {}
        self._changes: dict[str, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def __iter__(self) -> Iterator[tuple[str, Standing]]:
        return iter(sorted(self._standings.items()))

    def enter(
        self,
        name: str,
        path: Path,
        placed: ServedDecoder | None = None,
        batches: Iterable[Path] = (),
    ) -> None:
        """Let a name be known; it is not loaded yet.

        Parameters
        ----------
        batches : artifacts of the same model for several elements at once (`batch_plans`).
        placed : of a decoder that is on a cluster: what runs it. It is loaded once.

        Raises
        ------
        UsageError
            If there is a model of that name.
        """
        if name in self._paths:
            raise UsageError(f"two models are called {name!r}: give one another name (NAME=PATH)")
        self._paths[name] = (path, *batches)
        if placed is not None:
            self._placed[name] = placed
        self._standings[name] = Standing(UNAVAILABLE, "not loaded")

    def find(self, name: str, version: str | None = None) -> ServedModel:
        """The model that takes queries under a name.

        Raises
        ------
        UnknownModelError
            If there is none.
        RefusedError
            If it is not loaded now.
        """
        standing = self._standings.get(name)
        if standing is None:
            known = ", ".join(sorted(self._standings)) or "none"
            raise UnknownModelError(f"there is no model {quote(name)}; there are: {known}")
        model = standing.model
        if model is None:
            raise RefusedError(
                f"the model {name!r} is not ready: {standing.reason or standing.state.lower()}",
                reason=NOT_READY, retry_after=1.0 if standing.state == LOADING else None,
            )  # fmt: skip
        if version is not None and version != model.version:
            raise UnknownModelError(
                f"there is no version {quote(version)} of {name!r}; there is {model.version}"
            )
        return model

    async def load(self, name: str, *, may_change: bool = False) -> ServedModel:
        """Load a name's newest artifact, let it take what comes, and close what did before.

        Parameters
        ----------
        may_change : whether its signature may be another than before.

        Raises
        ------
        UnknownModelError
            If there is no such name.
        RefusedError
            If the server is shutting down, or too many changes of the name wait already.
        HeteroError
            If it cannot be loaded, or does not compute; what was there before stays.
        """
        return await self._change(name, lambda: self._replace(name, may_change))

    def without_path(self, name: str, error: BaseException) -> str:
        """What went wrong with a name, as clients may read it: not where its artifact is."""
        text = str(error)
        for path in sorted(self._paths[name], key=lambda each: -len(str(each))):
            text = text.replace(str(path), name)
        return text

    async def unload(self, name: str) -> None:
        """Take no more queries under a name, and close it when those in flight have ended.

        Raises
        ------
        UnknownModelError, RefusedError
            As `load`.
        """
        await self._change(name, lambda: self._remove(name))

    def close_door(self) -> None:
        """Load and unload nothing any more."""
        self._is_closed = True

    async def close(self) -> None:
        """Close all models; what is in flight fails. A load that has begun is waited for."""
        self.close_door()
        while self._tasks:
            await asyncio.wait(self._tasks)
        for standing in self._standings.values():
            if standing.model is not None:
                model, standing.model = standing.model, None
                # Aside: a decoder's last step may wait for this loop.
                await asyncio.get_running_loop().run_in_executor(None, model.close)

    async def _change(self, name: str, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """One change of a name after the other, each in a task that no client can cancel."""
        if name not in self._paths:
            raise UnknownModelError(f"there is no model {quote(name)}")
        if self._changes.get(name, 0) >= _MOST_CHANGES:
            raise RefusedError(
                f"{_MOST_CHANGES} loads and unloads of {name!r} wait already, the most that may",
                reason=QUEUE_FULL, retry_after=1.0,
            )  # fmt: skip
        self._changes[name] = self._changes.get(name, 0) + 1
        return await asyncio.shield(self.spawn(self._in_turn(name, change)))

    async def _in_turn(self, name: str, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            async with self._locks.setdefault(name, asyncio.Lock()):
                if self._is_closed:
                    raise RefusedError("the server is shutting down", reason=DRAINING)
                return await change()
        finally:
            self._changes[name] -= 1

    async def _replace(self, name: str, may_change: bool) -> ServedModel:
        standing = self._standings[name]
        old = standing.model
        if old is None:
            standing.state, standing.reason = LOADING, ""
        version = self._versions.get(name, 0) + 1
        golden = self._golden.get(name)
        try:
            new, seen = await in_thread(lambda: self._open(name, str(version), golden, may_change))
        except Exception as error:
            known = isinstance(error, HeteroError)
            text = self.without_path(name, error) if known else "internal error"
            standing.state, standing.reason = (READY if old else UNAVAILABLE), text
            raise
        self._versions[name], self._golden[name] = version, seen
        self._standings[name] = Standing(READY, "", new)
        if old is not None:
            self.spawn(self._close_when_idle(old))
        return new

    async def _remove(self, name: str) -> None:
        old = self._standings[name].model
        self._standings[name] = Standing(UNLOADING, "unloading")
        if old is not None:
            await self._close_when_idle(old)
        self._standings[name] = Standing(UNAVAILABLE, "unloaded")

    async def _close_when_idle(self, model: ServedModel) -> None:
        end = time.monotonic() + _HELD
        while model.statistics.pending or (model.users and time.monotonic() < end):
            await asyncio.sleep(_LOOKS)
        # A decoder's last step still takes its turn in the pool, which has to know it until then.
        await in_thread(lambda: _close_and_trim(model))
        self._pool.remove(model.name, model.version)

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something that no client can cancel, and that `close` waits for."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_retrieve)
        return task

    def _open(
        self, name: str, version: str, golden: GoldenRun | None, may_change: bool
    ) -> tuple[ServedModel, GoldenRun]:
        paths = self._paths[name]
        runner = self._placed_runner(name) or open_model(name, version, paths, self._adaptation)
        try:
            seen = verify(runner, golden, may_change=may_change)
            tensors = decoder = None
            if isinstance(runner, TensorModel):
                self._pool.add(runner)
                tensors = runner
            else:
                is_here = name not in self._placed
                seconds = runner.steps.schedule.value
                gate = self._pool.gate(name, version, seconds) if is_here else None
                decoder = DecoderModel(name, version, runner, paths[0], gate)
        except BaseException:
            runner.close()
            raise
        return ServedModel(name, version, paths[0], tensors, decoder, self._slo.get(name)), seen

    def _placed_runner(self, name: str) -> ServedDecoder | None:
        """The runner of a decoder on a cluster."""
        if name not in self._placed:
            return None
        runner, self._placed[name] = self._placed[name], None
        if runner is None:
            raise UsageError(f"{name} is on a cluster: start the server anew to load it again")
        return runner


def _close_and_trim(model: ServedModel) -> None:
    """Close, and let the allocator give back what it keeps for a model that is gone, which was
    several times the network (`benchmarks.serve_soak` prints the growth)."""
    model.close()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Its error was for whoever asked, who may be gone."""
    if not task.cancelled():
        task.exception()
