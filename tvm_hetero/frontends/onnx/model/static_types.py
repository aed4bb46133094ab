"""Shapes in an imported module: known in numbers, or not."""

from __future__ import annotations

import tvm
from tvm import relax


def static_shape(type_: relax.Type) -> tuple[int, ...] | None:
    """Return the shape of a tensor type if all of it is known in numbers."""
    shape = getattr(type_, "shape", None)
    if not isinstance(shape, relax.ShapeExpr):
        return None
    if not all(isinstance(d, tvm.tirx.IntImm) for d in shape.values):
        return None
    return tuple(int(d) for d in shape.values)


def dynamic_operators(module: tvm.ir.IRModule) -> list[str]:
    """Return the names of the operators in ``main`` whose results have no static shape."""
    found: dict[str, None] = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            type_, value = binding.var.ty, binding.value
            if isinstance(type_, relax.TensorType) and static_shape(type_) is None:
                name = value.op.name if isinstance(value, relax.Call) else "the model"
                found.setdefault(name.removeprefix("relax."))
    return list(found)
