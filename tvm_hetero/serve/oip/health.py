"""Whether the server and its models are up, and what they are called."""

from __future__ import annotations

from typing import ClassVar

from tvm_hetero import __version__
from tvm_hetero.errors import HeteroError
from tvm_hetero.serve.http.door_checks import Permission
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.models.served_model import READY

EXTENSIONS = (
    "binary_tensor_data", "statistics", "model_repository", "schedule_policy",
)  # fmt: skip


class Live(ApiHandler):
    """``GET /v2/health/live``: the process answers."""

    permission: ClassVar[Permission] = Permission.OPEN

    def get(self) -> None:
        """Always."""
        self.answer({"live": True})


class Ready(ApiHandler):
    """``GET /v2/health/ready``: every model that shall be served takes queries."""

    permission: ClassVar[Permission] = Permission.OPEN

    def get(self) -> None:
        """503 while it drains, or a model is not there."""
        context = self.context
        all_there = all(standing.state == READY for _, standing in context.repository)
        is_ready = all_there and not context.draining
        self.answer({"live": is_ready, "ready": is_ready}, 200 if is_ready else 503)


class ModelReady(ApiHandler):
    """``GET /v2/models/NAME[/versions/V]/ready``."""

    def get(self, name: str, version: str | None = None) -> None:
        """503 while it takes no queries, 404 if there is no such model."""
        try:
            model = self.context.repository.find(name, version)
        except HeteroError:
            self.context.repository.find(name)
            raise
        self.answer({"name": model.name, "ready": True})


class ServerMetadata(ApiHandler):
    """``GET /v2``."""

    permission: ClassVar[Permission] = Permission.OPEN

    def get(self) -> None:
        """Name, version, extensions."""
        self.answer({"name": "tvm_hetero", "version": __version__, "extensions": list(EXTENSIONS)})
