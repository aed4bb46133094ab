"""Operators that take a type, or no more than a value, from another operand."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites("CastLike")
def rewrite_cast_like(r: Rewriting) -> bool:
    """Cast to the type that the second operand has; it may be empty."""
    kept = {name: r.attribute(name) for name in ("saturate", "round_mode")}
    r.add("Cast", [r.inputs[0]], r.outputs, to=r.element_type(r.inputs[1]), **kept)
    return True
