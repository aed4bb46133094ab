"""The converters there are; importing this registers them."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.conversion import ordered

__all__ = ["ordered"]
