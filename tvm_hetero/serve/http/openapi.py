"""``GET /openapi.json``: all that the server answers, for people and for programs.

Each protocol has a document of its own in the folder ``openapi`` beside this file, with ``paths``
and ``components``; together they are the one that is served.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any, ClassVar

import orjson

from tvm_hetero import __version__
from tvm_hetero.serve.http.door_checks import Permission
from tvm_hetero.serve.http.handler import ApiHandler

_FOLDER = files("tvm_hetero.serve.http") / "openapi"


class OpenApi(ApiHandler):
    """The document; it is the same for all, and no secret."""

    permission: ClassVar[Permission] = Permission.OPEN

    def get(self) -> None:
        """In JSON."""
        self.answer(whole_document())


@functools.cache
def whole_document() -> dict[str, Any]:
    """The documents of all protocols as one."""
    whole: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "tvm_hetero", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": {},
        "components": {},
    }
    for part in sorted(_FOLDER.iterdir(), key=lambda each: each.name):
        document = orjson.loads(part.read_bytes())
        whole["paths"].update(document["paths"])
        for kind, named in document.get("components", {}).items():
            whole["components"].setdefault(kind, {}).update(named)
    return whole
