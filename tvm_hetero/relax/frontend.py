"""Front ends: other people's models to Relax modules."""

from __future__ import annotations

from tvm_hetero.frontends.onnx import from_onnx as from_onnx
