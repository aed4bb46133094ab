"""What a model takes and gives: in the protocol's words, and in those of Triton's configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm_hetero.executor.inputs import TensorInfo
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.oip.datatypes import datatype_of

PLATFORM = "tvm_hetero"


class ModelMetadata(ApiHandler):
    """``GET /v2/models/NAME[/versions/V]``."""

    def get(self, name: str, version: str | None = None) -> None:
        """Names, types and shapes; -1 where a query may have any length."""
        model = self.context.repository.find(name, version)
        inputs, outputs = _declared(model)
        self.answer({
            "name": model.name, "versions": [model.version], "platform": PLATFORM,
            "inputs": inputs, "outputs": outputs,
        })  # fmt: skip


class ModelConfig(ApiHandler):
    """``GET /v2/models/NAME[/versions/V]/config``, as Triton's clients expect it.

    ``max_batch_size`` is 0, which in Triton's words means that ``dims`` are whole shapes.
    """

    def get(self, name: str, version: str | None = None) -> None:
        """The same facts in the form of a configuration."""
        model = self.context.repository.find(name, version)
        inputs, outputs = _declared(model)
        self.answer({
            "name": model.name, "platform": PLATFORM, "backend": PLATFORM,
            "version_policy": {"latest": {"num_versions": 1}}, "max_batch_size": 0,
            "input": [_configured(each) for each in inputs],
            "output": [_configured(each) for each in outputs],
        })  # fmt: skip


def _declared(model: ServedModel) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Inputs and outputs; a decoder has none, for it takes texts (`serve.openai`)."""
    if model.tensors is None:
        return [], []
    signature = model.tensors.signature
    return (
        _tensors(signature.inputs, signature.is_batched),
        _tensors(signature.outputs, signature.is_batched),
    )


def _tensors(infos: Iterable[TensorInfo], is_batched: bool) -> list[dict[str, Any]]:
    return [
        {
            "name": info.name,
            "datatype": datatype_of(info.dtype),
            "shape": [-1, *info.shape[1:]] if is_batched else list(info.shape),
        }
        for info in infos
    ]


def _configured(tensor: dict[str, Any]) -> dict[str, Any]:
    kind = f"TYPE_{tensor['datatype']}"
    return {"name": tensor["name"], "data_type": kind, "dims": tensor["shape"]}
