"""All that is counted of one server, in a registry of its own: nothing is global."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from tvm_hetero.serve.core.events import LIFECYCLE, MODEL, EventLog, ServerEvent
from tvm_hetero.serve.metrics.core_times import CoreTimes
from tvm_hetero.serve.metrics.ledger import Ledger
from tvm_hetero.serve.metrics.own_names import OwnNames
from tvm_hetero.serve.metrics.sampler import Sampler
from tvm_hetero.serve.metrics.token_ledger import TokenLedger
from tvm_hetero.serve.metrics.triton_names import TritonNames
from tvm_hetero.serve.metrics.vllm_names import VllmNames
from tvm_hetero.serve.models.repository import Repository
from tvm_hetero.serve.models.served_model import LOADING, READY, UNAVAILABLE, UNLOADING


class ServerMetrics:
    """Counts of one server.

    Parameters
    ----------
    cores : who has which.
    is_draining : asked whether it takes nothing new.
    compatible : also under the names of Triton and vLLM.

    Attributes
    ----------
    ledger, tokens : of queries, and of decoders' tokens.
    cores, sampler : of what is looked at by the clock.
    events : what happened.
    registry : what a scraper is given.
    """

    def __init__(
        self,
        repository: Repository,
        cores: CoreTimes,
        is_draining: Callable[[], bool],
        *,
        compatible: bool = False,
    ) -> None:
        self.repository = repository
        self.is_draining = is_draining
        self.ledger = Ledger()
        self.tokens = TokenLedger(self.ledger, self._objective)
        self.events = EventLog()
        self.sampler = Sampler()
        self.cores = cores
        self.sampler.looks += [cores.catch_up, _Changes(self)]
        self.registry = CollectorRegistry()
        self.registry.register(OwnNames(self))
        if compatible:
            self.registry.register(TritonNames(self))
            self.registry.register(VllmNames(self))
        self._sampling: asyncio.Task[None] | None = None

    def _objective(self, name: str) -> float | None:
        rows = (standing.model for known, standing in self.repository if known == name)
        return next((model.slo for model in rows if model is not None), None)

    def start(self) -> None:
        """Look at the clock from now on; in the event loop's thread. A second call does nothing."""
        if self._sampling is None:
            self._sampling = asyncio.get_running_loop().create_task(self.sampler.run())

    def stop(self) -> None:
        """Look no more."""
        if self._sampling is not None:
            self._sampling.cancel()
            self._sampling = None


class _Changes:
    """Writes down what becomes of models and of the server."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics = metrics
        self._states: dict[str, tuple[str, str, str]] = {}
        self._was_draining = False

    def __call__(self, _: float) -> None:
        events = self._metrics.events
        for name, standing in self._metrics.repository:
            version = standing.model.version if standing.model else ""
            state = (standing.state, version, standing.reason)
            before, self._states[name] = self._states.get(name), state
            if before != state and (before is not None or standing.state == READY):
                events.record(ServerEvent(MODEL, _tell(*state), name))
        if self._metrics.is_draining() and not self._was_draining:
            self._was_draining = True
            events.record(ServerEvent(LIFECYCLE, "shutting down: nothing new is taken"))


def _tell(state: str, version: str, reason: str) -> str:
    if state == READY and not reason:
        return f"version {version} takes queries"
    if state == READY:
        return f"version {version} stays: the new one could not be loaded ({reason})"
    if state == UNAVAILABLE and reason not in ("", "unloaded"):
        return f"not served: {reason}"
    return _WORDS[state]


_WORDS = {LOADING: "is being loaded", UNLOADING: "is being unloaded", UNAVAILABLE: "unloaded"}
