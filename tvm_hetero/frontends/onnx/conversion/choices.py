"""A choice between two whole tensors, which leaves what only one of them needs undone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts

if TYPE_CHECKING:
    from tvm import relax


@converts("Where")
def convert_where(c: Conversion) -> relax.Expr | None:
    """Take a ``Where`` on a scalar as a choice; any other goes to TVM."""
    from tvm import relax

    from tvm_hetero.kernels.rowwise.choose import choose

    constant = c.constant(0) is not None or (
        c.constant(1) is not None and c.constant(2) is not None
    )
    if constant or c.dims(0) not in ((), (1,)) or c.dims(1) != c.dims(2) or not c.dims(1):
        return None
    if math.prod(c.dims(1)) < 2:
        return None
    condition = c.operand(0)
    if c.dims(0):
        condition = c.emit(relax.op.reshape(condition, []))
    return c.emit(choose(c.builder, condition, c.operand(1), c.operand(2), c.choice_names()))
