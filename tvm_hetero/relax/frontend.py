"""Front ends: other people's models to Relax modules."""

from __future__ import annotations

from tvm_hetero.frontends.huggingface import from_huggingface as from_huggingface
from tvm_hetero.frontends.huggingface.encoders.importer import (
    encoder_from_huggingface as encoder_from_huggingface,
)
from tvm_hetero.frontends.onnx import from_onnx as from_onnx
from tvm_hetero.frontends.relay import from_json as from_json
from tvm_hetero.frontends.relay import from_text as from_text
from tvm_hetero.frontends.relay import load_params as load_params
from tvm_hetero.frontends.torch.export import from_exported as from_exported
