"""Models come and go over HTTP: the protocol's extension "model repository".

``load`` loads what the name stood for when the server was started, anew. It takes no parameters:
Triton's "config" and "file:..." would let a client write files, or say what code is run.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from tvm_hetero.errors import HeteroError
from tvm_hetero.serve.core.refusal import RefusedError, RequestError, UnknownModelError
from tvm_hetero.serve.http.door_checks import Permission
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.models.served_model import READY
from tvm_hetero.util.quote import quote

_MOST = 1 << 20  # bytes of a request: one with a model in it is told why it is refused


class _IndexMessage(msgspec.Struct):
    ready: bool = False


class _LoadMessage(msgspec.Struct):
    parameters: Annotated[dict[str, Any], msgspec.Meta(max_length=64)] = {}


class RepositoryIndex(ApiHandler):
    """``POST /v2/repository/index``: all names, and where they stand."""

    def post(self) -> None:
        """Of all, or of those that take queries (``{"ready": true}``)."""
        only_ready = _read(self.body, _IndexMessage).ready
        self.answer([
            {
                "name": name,
                "version": standing.model.version if standing.model else "",
                "state": standing.state,
                "reason": standing.reason,
            }
            for name, standing in self.context.repository
            if standing.state == READY or not only_ready
        ])  # fmt: skip


class LoadModel(ApiHandler):
    """``POST /v2/repository/models/NAME/load``."""

    permission: ClassVar[Permission] = Permission.ADMIN
    answers_while_draining: ClassVar[bool] = False

    async def post(self, name: str) -> None:
        """Load it anew; what was there stays until the new one takes over, and if it fails."""
        for parameter in _read(self.body, _LoadMessage).parameters:
            raise RequestError(
                f"parameter {quote(parameter)}: models are loaded as they are on this machine's "
                "disk, without parameters"
            )
        repository = self.context.repository
        try:
            await repository.load(name)
        except (UnknownModelError, RefusedError):
            raise  # nothing was tried
        except HeteroError as error:
            raise HeteroError(repository.without_path(name, error)) from error
        self.answer({})


class UnloadModel(ApiHandler):
    """``POST /v2/repository/models/NAME/unload``."""

    permission: ClassVar[Permission] = Permission.ADMIN

    async def post(self, name: str) -> None:
        """Take no more queries; those in flight end before the answer comes."""
        _read(self.body, _LoadMessage)  # "unload_dependents": there are no ensembles here
        await self.context.repository.unload(name)
        self.answer({})


def _read(body: bytes | bytearray, kind: type[Any]) -> Any:
    if len(body) > _MOST:
        raise RequestError(f"the body has {len(body)} bytes; expected {_MOST} at most")
    try:
        return msgspec.json.decode(body.strip() or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"the body: {error}") from None
