"""A server from its first socket to its last answer.

start       listens at once (health says that it is not ready), then loads its models
drain       takes nothing new and says so; what was accepted ends within `drain` seconds, or is told
            that it will not
stop        closes connections and models
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tornado.netutil import bind_sockets

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.application import all_routes
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.core.refusal import DRAINING, RefusedError
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.http.door_server import DoorServer
from tvm_hetero.serve.http.routes import HttpRoute, make_application
from tvm_hetero.serve.models.adapted_share import Adaptation
from tvm_hetero.serve.models.batching_dispatcher import BatchingDispatcher
from tvm_hetero.serve.models.dispatcher import Observed
from tvm_hetero.serve.models.policy_driver import MakeScheduler
from tvm_hetero.serve.models.repository import Repository
from tvm_hetero.serve.models.served_decoder import ServedDecoder
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.page.scrape import count_all
from tvm_hetero.serve.scheduling.policies import SHARE_POLICIES
from tvm_hetero.serve.scheduling.policies.accordion import Accordion
from tvm_hetero.serve.scheduling.policies.options import AccordionOptions
from tvm_hetero.serve.traces.spans import SpanMaker

_LOG = logging.getLogger("tvm_hetero.serve")
_LOOKS = 0.01  # seconds between two looks at whether all is answered
_LONGEST_NAME = 256  # letters, as in the routes
_TAKEN = ("stats",)  # /v2/models/stats is of all models
_LAST_WORDS = 1.0  # seconds for those who are told that they will get no answer


class ModelServer:
    """Serves models over HTTP; for one event loop.

    Parameters
    ----------
    models : folders that `tvm-hetero partition` wrote, by the names by which clients ask;
        of several the first is the model's own, others are its `batch_plans`.
    routes : further ones, of whoever embeds the server.
    placed : decoders among the models that are on a cluster.
    spans : is told of all that ends; closed with the server.

    Attributes
    ----------
    port : on which it listens, once it has started.
    context : what its handlers share.
    metrics : what is counted.
    """

    def __init__(
        self,
        models: Mapping[str, Path | Sequence[Path]],
        options: ServeOptions | None = None,
        routes: Iterable[HttpRoute] = (),
        placed: Mapping[str, ServedDecoder] | None = None,
        spans: SpanMaker | None = None,
    ) -> None:
        self.options = options or ServeOptions()
        self._routes = [*routes, *all_routes()]
        cores = sorted(os.sched_getaffinity(0))
        make_scheduler = policy_of(self.options.policy, best_effort=self.options.best_effort)
        pool = BatchingDispatcher(cores, make_scheduler, self.options.limits.queue)
        self._adaptation = Adaptation(lambda event: self.metrics.events.record(event))
        adaptation = self._adaptation if self.options.adapt else None
        repository = Repository(self.options.slo, pool, adaptation)
        for name, given in models.items():
            path, *batches = [given] if isinstance(given, Path) else given
            if batches and not pool.can_batch:
                policy = self.options.policy
                raise UsageError(f"{name}: --policy {policy} runs no batches; give one artifact")
            if batches and name in (placed or {}):
                raise UsageError(f"{name}: a decoder on a cluster has one artifact, got more")
            repository.enter(name, path, (placed or {}).get(name), batches)
        self.context = ServeContext(self.options, repository, Observed(pool))
        self.metrics = count_all(self.context, cores, pool)
        self._spans = spans
        if spans is not None:
            self.context.dispatcher.observers.append(spans.end_query)
            self.context.generation_observers.append(spans)
        self.port = 0
        self._http: DoorServer | None = None

    async def start(self) -> None:
        """Listen, and load the models.

        Raises
        ------
        UsageError
            If the address is taken.
        HeteroError
            If a model cannot be loaded.
        """
        self.listen()
        self._adaptation.loop_thread = threading.get_native_id()
        for name, _ in list(self.context.repository):
            await self.context.repository.load(name)
            _LOG.info("%s is ready", name)

    def listen(self) -> None:
        """Open the sockets; requests are answered from now on.

        Raises
        ------
        UsageError
            If the address is taken, or none of this machine's.
        """
        options, limits = self.options, self.options.limits
        try:
            sockets = bind_sockets(options.port, options.host)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {options.host} port {options.port}: {error.strerror or error}; "
                "choose another --port or --host"
            ) from None
        application = make_application(self.context, self._routes)
        self._http = DoorServer(application, limits)
        self._http.add_sockets(sockets)
        self.metrics.start()
        self.port = sockets[0].getsockname()[1]

    @property
    def models(self) -> list[ServedModel]:
        """Those that take queries now."""
        standings = [standing for _, standing in self.context.repository]
        return [standing.model for standing in standings if standing.model is not None]

    @property
    def connections(self) -> int:
        """How many are open."""
        return 0 if self._http is None else self._http.connections

    async def drain(self) -> None:
        """Take nothing new, and wait for what was accepted (`ServeOptions.drain`); what is not done
        then is ended, and its clients are told so."""
        self.context.draining = True
        self.context.repository.close_door()
        if not await self._all_answered(self.options.drain):
            left = RefusedError("the server ended before the answer was there",
                                reason=DRAINING, retry_after=1.0)  # fmt: skip
            for handler in list(self.context.active):
                handler.give_up(left)
            await self._all_answered(_LAST_WORDS)

    async def stop(self) -> None:
        """Close all: what is in flight fails."""
        self.metrics.stop()
        if self._http is not None:
            await self._http.close()
            self._http = None
        await self.context.repository.close()
        if self._spans is not None:  # it may wait for the collector
            await asyncio.to_thread(self._spans.close)

    async def _all_answered(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.context.active or (self._http is not None and self._http.is_writing):
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_LOOKS)
        return True


def policy_of(name: str, *, best_effort: bool = False) -> MakeScheduler:
    """The policy of a name.

    Parameters
    ----------
    best_effort : take what cannot be in time, too. Only Accordion refuses by deadlines.

    Raises
    ------
    UsageError
        If there is none.
    """
    if name not in SHARE_POLICIES:
        raise UsageError(f"there is no policy {name!r}; there are {', '.join(SHARE_POLICIES)}")
    policy = SHARE_POLICIES[name]
    if best_effort and issubclass(policy, Accordion):
        # Weighing refuses, too, and for the sake of lighter ones that are not refused now.
        return partial(policy, options=AccordionOptions(best_effort=True, weigh=False))
    return policy


def name_models(given: Iterable[str]) -> dict[str, tuple[Path, ...]]:
    """Models by name from ``NAME=PATH`` or ``PATH``, whose name is that of the folder.

    ``PATH,PATH,...`` are artifacts of one model: its own, and others for batches.

    Raises
    ------
    UsageError
        If two have one name, or no path could name one.
    """
    found: dict[str, tuple[Path, ...]] = {}
    for text in given:
        name, mark, path = text.partition("=")
        folders = _folders(path if mark else text)
        chosen = name if mark else folders[0].name.removesuffix(".hetero")
        if not 0 < len(chosen) <= _LONGEST_NAME or chosen in _TAKEN:
            raise UsageError(
                f"{text[:60]!r}: expected a name of 1 to {_LONGEST_NAME} letters, and none of "
                f"{', '.join(_TAKEN)}, which paths mean otherwise: write NAME=PATH"
            )
        if chosen in found:
            raise UsageError(f"two models are called {chosen!r}: write NAME=PATH")
        found[chosen] = folders
    return found


def _folders(text: str) -> tuple[Path, ...]:
    """One folder, whose name may have commas if it is there, or several."""
    if Path(text).exists():
        return (Path(text),)
    parts = text.split(",")
    if len(parts) > 1 and not all(parts):
        raise UsageError(f"{text[:60]!r}: expected paths with commas between them, NAME=PATH,PATH")
    return tuple(map(Path, parts))
