"""A server from its first socket to its last answer.

start       listens at once (health says that it is not ready), then loads its models
drain       takes nothing new and says so; what was accepted ends within `drain` seconds
stop        closes connections and models
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.application import all_routes
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.http.routes import make_application
from tvm_hetero.serve.models.dispatcher import Observed, TurnDispatcher
from tvm_hetero.serve.models.repository import Repository
from tvm_hetero.serve.page.scrape import count_all

_LOG = logging.getLogger("tvm_hetero.serve")
_LOOKS = 0.01  # seconds between two looks at whether all is answered


class ModelServer:
    """Serves models over HTTP; for one event loop.

    Parameters
    ----------
    models : folders that `tvm-hetero partition` wrote, by the names by which clients ask.

    Attributes
    ----------
    port : on which it listens, once it has started.
    context : what its handlers share.
    metrics : what is counted.
    """

    def __init__(self, models: Mapping[str, Path], options: ServeOptions | None = None) -> None:
        self.options = options or ServeOptions()
        repository = Repository(self.options.slo)
        for name, path in models.items():
            repository.enter(name, path)
        dispatcher = Observed(TurnDispatcher(self.options.limits.queue))
        self.context = ServeContext(self.options, repository, dispatcher)
        self.metrics = count_all(self.context)
        self.port = 0
        self._http: HTTPServer | None = None

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
                "choose another --port"
            ) from None
        self._http = HTTPServer(
            make_application(self.context, all_routes()),
            max_body_size=limits.body,
            max_header_size=limits.header,
            idle_connection_timeout=limits.idle,
            body_timeout=limits.body_seconds,
        )
        self._http.add_sockets(sockets)
        self.metrics.start()
        self.port = sockets[0].getsockname()[1]

    async def drain(self) -> None:
        """Take nothing new, and wait for what was accepted (`ServeOptions.drain`)."""
        self.context.draining = True
        end = time.monotonic() + self.options.drain
        while self.context.busy and time.monotonic() < end:
            await asyncio.sleep(_LOOKS)

    async def stop(self) -> None:
        """Close all: what is in flight fails."""
        self.metrics.stop()
        if self._http is not None:
            self._http.stop()
            await self._http.close_all_connections()
            self._http = None
        self.context.repository.close()


def name_models(given: Iterable[str]) -> dict[str, Path]:
    """Models by name from ``NAME=PATH`` or ``PATH``, whose name is that of the folder.

    Raises
    ------
    UsageError
        If two have one name.
    """
    found: dict[str, Path] = {}
    for text in given:
        name, mark, path = text.partition("=")
        folder = Path(path if mark else text)
        chosen = name if mark else folder.name.removesuffix(".hetero")
        if chosen in found:
            raise UsageError(f"two models are called {chosen!r}: write NAME=PATH")
        found[chosen] = folder
    return found
