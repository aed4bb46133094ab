"""A server in a thread of its own, so that tests of its page can let it see what they want."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.serve.server_thread import ServerThread
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.core.query import InferenceQuery
from tvm_hetero.serve.metrics.server_metrics import ServerMetrics
from tvm_hetero.serve.models.statistics import EndedQuery


class LiveServer(ServerThread):
    """Serves models of a folder; in the end it is drained first, so that viewers see that."""

    def __init__(self, home: Path, names: tuple[str, ...], **options: Any) -> None:
        models = {name: home / f"{name}.hetero" for name in names}
        super().__init__(models, ServeOptions(port=0, **options))

    @property
    def metrics(self) -> ServerMetrics:
        """What it counts."""
        return self.server.metrics

    def infer(self, name: str, queries: int, slo: float | None = None) -> None:
        """Compute so many queries, one after the other, as the protocols' handlers would."""

        async def work() -> None:
            model = self.server.context.repository.find(name)
            assert model.tensors is not None
            given = {i.name: np.ones(i.shape, i.dtype) for i in model.tensors.signature.inputs}
            for _ in range(queries):
                await self.server.context.dispatcher.compute(
                    model.tensors, model.statistics, InferenceQuery(given), slo
                )

        self.call(work())

    def end(self, *queries: EndedQuery) -> None:
        """Let these queries have ended."""
        for query in queries:
            self.ask(lambda query=query: self.metrics.ledger.end_query(query))

    def __exit__(self, *_: object) -> None:
        self.call(self.server.drain())
        super().__exit__()
