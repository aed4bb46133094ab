"""``GET /v1/models``: what there is."""

from __future__ import annotations

from typing import Any, ClassVar

from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.openai.embeddings import encoder_form
from tvm_hetero.serve.openai.handler import OpenAiHandler


class Models(OpenAiHandler):
    """All models that take requests of this API."""

    answers_while_draining: ClassVar[bool] = True

    def get(self) -> None:
        """In the order of their names."""
        served = [standing.model for _, standing in self.context.repository]
        data = [_describe(model) for model in served if model is not None and _is_ours(model)]
        self.answer({"object": "list", "data": data})


class Model(OpenAiHandler):
    """One of them."""

    answers_while_draining: ClassVar[bool] = True

    def get(self, name: str) -> None:
        """404 if it is not there."""
        self.answer(_describe(self.context.repository.find(name)))


def _is_ours(served: ServedModel) -> bool:
    is_encoder = served.tensors is not None and encoder_form(served.tensors.signature) is not None
    return served.decoder is not None or is_encoder


def _describe(served: ServedModel) -> dict[str, Any]:
    created = int(served.path.stat().st_mtime) if served.path.exists() else 0
    row = {"id": served.name, "object": "model", "created": created, "owned_by": "tvm_hetero"}
    if served.decoder is None:
        return row
    return {**row, "created": served.decoder.created, "max_model_len": served.decoder.length}
