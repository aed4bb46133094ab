"""ONNX Runtime as a runtime of MLServer's; for a virtual environment of its own.

MLServer imports it as `mlserver_runtime.OnnxRuntime`, by a ``model-settings.json`` beside it.
"""

from __future__ import annotations

from typing import Any

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class OnnxRuntime(MLModel):
    """A session."""

    async def load(self) -> bool:
        """Make the session; its threads are a parameter of the settings."""
        options = onnxruntime.SessionOptions()
        extra: Any = self.settings.parameters.extra
        options.intra_op_num_threads = int(extra["threads"])
        self._session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        self._name = self._session.get_inputs()[0].name
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Run it."""
        x = NumpyCodec.decode_input(payload.inputs[0])
        y = self._session.run(None, {self._name: x})[0]
        output = NumpyCodec.encode_output("y", y)
        return InferenceResponse(model_name=self.name, outputs=[output])
