"""The models that are served, by name and version, and how they come and go.

A new version is loaded aside and has to compute before it is let in; then it takes what comes, and
the old one is closed when nothing of it is in flight any more. A load that fails changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.decoders.load import load
from tvm_hetero.errors import HeteroError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.serve.core.refusal import NOT_READY, RefusedError, UnknownModelError
from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.models.statistics import ModelStatistics
from tvm_hetero.serve.models.tensor_model import TensorModel
from tvm_hetero.util.quote import quote

# States of a model, in the words of the protocol.
READY, LOADING, UNLOADING, UNAVAILABLE = "READY", "LOADING", "UNLOADING", "UNAVAILABLE"
_LOOKS = 0.005  # seconds between two looks at whether a model is idle


@dataclass(eq=False)
class ServedModel:
    """A version of a model that takes queries.

    Attributes
    ----------
    name, version : by which it is asked for.
    path : of its artifact.
    tensors, decoder : what runs it; one of them is None.
    slo : seconds in which its queries shall be answered; None: no objective.
    """

    name: str
    version: str
    path: Path
    tensors: TensorModel | None
    decoder: DecoderModel | None
    slo: float | None = None
    statistics: ModelStatistics = field(default_factory=ModelStatistics)

    def close(self) -> None:
        """Stop what runs it; what is in flight fails."""
        if self.tensors is not None:
            self.tensors.executor.close()
        if self.decoder is not None:
            self.decoder.close()


@dataclass
class Standing:
    """Where a name stands, served or not.

    Attributes
    ----------
    state, reason : the protocol's state, and why it is no better one.
    model : what takes queries now.
    """

    state: str
    reason: str = ""
    model: ServedModel | None = None


class Repository:
    """Names and what stands behind them. For the event loop's thread, but for loading."""

    def __init__(self, slo: Mapping[str, float] | None = None) -> None:
        self._slo = dict(slo or {})
        self._standings: dict[str, Standing] = {}
        self._paths: dict[str, Path] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="tvm_hetero loading")

    def __iter__(self) -> Iterator[tuple[str, Standing]]:
        return iter(sorted(self._standings.items()))

    def enter(self, name: str, path: Path) -> None:
        """Let a name be known; it is not loaded yet.

        Raises
        ------
        UsageError
            If there is a model of that name.
        """
        if name in self._paths:
            raise UsageError(f"two models are called {name!r}: give one another name (NAME=PATH)")
        self._paths[name] = path
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

    async def load(self, name: str) -> ServedModel:
        """Load a name's newest artifact, let it take what comes, and close what did before.

        Raises
        ------
        UnknownModelError
            If there is no such name.
        HeteroError
            If it cannot be loaded, or does not compute; what was there before stays.
        """
        if name not in self._paths:
            raise UnknownModelError(f"there is no model {quote(name)}")
        async with self._locks.setdefault(name, asyncio.Lock()):
            standing = self._standings[name]
            old = standing.model
            version = str(int(old.version) + 1) if old else "1"
            standing.state = READY if old else LOADING
            try:
                new = await asyncio.get_running_loop().run_in_executor(
                    self._loader, self._open, name, version
                )
            except HeteroError as error:
                standing.state, standing.reason = (READY if old else UNAVAILABLE), str(error)
                raise
            self._standings[name] = Standing(READY, "", new)
        if old is not None:
            await _close_when_idle(old)
        return new

    async def unload(self, name: str) -> None:
        """Take no more queries under a name, and close it when those in flight have ended.

        Raises
        ------
        UnknownModelError
            If there is no such name.
        """
        if name not in self._paths:
            raise UnknownModelError(f"there is no model {quote(name)}")
        async with self._locks.setdefault(name, asyncio.Lock()):
            old = self._standings[name].model
            self._standings[name] = Standing(UNLOADING, "unloading")
            if old is not None:
                await _close_when_idle(old)
            self._standings[name] = Standing(UNAVAILABLE, "unloaded")

    def close(self) -> None:
        """Close all models; what is in flight fails."""
        self._loader.shutdown(wait=True, cancel_futures=True)
        for standing in self._standings.values():
            if standing.model is not None:
                standing.model.close()
                standing.model = None

    def _open(self, name: str, version: str) -> ServedModel:
        path = self._paths[name]
        loaded = load(path)
        slo = self._slo.get(name)
        if isinstance(loaded, Decoder):
            return self._open_decoder(name, version, loaded)
        if not isinstance(loaded, Executor) or loaded.states:
            loaded.close()
            raise UsageError(
                f"{name}: a model of open dimensions, or one that keeps states, is not served; "
                "partition it for one size"
            )
        try:
            return ServedModel(name, version, path, TensorModel(name, version, loaded), None, slo)
        except HeteroError:
            loaded.close()
            raise

    def _open_decoder(self, name: str, version: str, decoder: Decoder) -> ServedModel:
        path = self._paths[name]
        try:
            model = DecoderModel(name, version, decoder, path)
        except HeteroError:
            decoder.close()
            raise
        return ServedModel(name, version, path, None, model, self._slo.get(name))


async def _close_when_idle(model: ServedModel) -> None:
    while model.statistics.pending:
        await asyncio.sleep(_LOOKS)
    await asyncio.get_running_loop().run_in_executor(None, model.close)
