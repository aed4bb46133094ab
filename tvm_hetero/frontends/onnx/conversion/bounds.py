"""``Max``, ``Min`` and ``Clip`` that keep NaN, as ONNX Runtime does.

``max(a, b)`` is computed as a > b ? a : b, which is b where either is NaN: so the operand that may
be NaN stands second, and for two such operands a NaN of the first is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts

if TYPE_CHECKING:
    from tvm import relax, te


@converts("Max", "Min")
def convert_extreme(c: Conversion) -> relax.Expr | None:
    """Combine floating operands pair by pair; integers have no NaN and are left to TVM."""
    if not c.dtype(0).startswith(("float", "bfloat")):
        return None
    plain = {i for i in range(len(c.operands)) if _is_number(c.constant(i))}
    order = sorted(range(len(c.operands)), key=lambda i: i not in plain)
    largest = c.node.op_type == "Max"
    found, may_be_nan = c.operand(order[0]), order[0] not in plain
    for position in order[1:]:
        found = c.emit_te(_pick, found, c.operand(position), largest=largest, checked=may_be_nan)
        may_be_nan = may_be_nan or position not in plain
    return found


def _is_number(constant: np.ndarray[Any, Any] | None) -> bool:
    return constant is not None and not np.isnan(constant.astype(np.float64)).any()


def _pick(a: te.Tensor, b: te.Tensor, largest: bool, checked: bool) -> te.Tensor:
    from tvm import te, tirx

    shape = joint_shape([int(n) for n in a.shape], [int(n) for n in b.shape])

    def value(*at: Any) -> Any:
        x, y = read(a, at), read(b, at)
        found = tirx.Max(x, y) if largest else tirx.Min(x, y)
        return tirx.Select(tirx.isnan(x), x, found) if checked else found

    return te.compute(shape, value, name="largest" if largest else "smallest")


def read(x: te.Tensor, at: tuple[Any, ...]) -> Any:
    """Read an operand where a result of its shape or a larger one (by broadcasting) has `at`."""
    last = at[len(at) - len(x.shape) :]
    return x[tuple(0 if int(n) == 1 else i for n, i in zip(x.shape, last, strict=True))]


def joint_shape(*shapes: list[int]) -> tuple[int, ...]:
    """Return the shape to which these broadcast."""
    return np.broadcast_shapes(*map(tuple, shapes))


@converts("Clip")
def convert_clip(c: Conversion) -> relax.Expr | None:
    """min(high, max(low, x)), which is `high` where the bounds cross."""
    from tvm import te, tirx

    bounds = [c.optional(1), c.optional(2)]
    known = [c.constant(1), c.constant(2)]
    dtype = c.dtype(0)
    if dtype == "bfloat16":
        return None

    def clip(x: te.Tensor, *read: te.Tensor) -> te.Tensor:
        rest = iter(read)

        def bound(i: int) -> Any:
            constant = known[i]
            if constant is None:
                return next(rest)[()]
            return tirx.const(constant.reshape(()).item(), dtype)

        limits = [None if b is None else bound(i) for i, b in enumerate(bounds)]

        def value(*at: Any) -> Any:
            found = x[at]
            if limits[0] is not None:
                found = tirx.Max(limits[0], found)
            return found if limits[1] is None else tirx.Min(limits[1], found)

        return te.compute(x.shape, value, name="clip")

    if bounds == [None, None]:
        return c.operand(0)
    read = [b for b, k in zip(bounds, known, strict=True) if b is not None and k is None]
    return c.emit_te(clip, c.operand(0), *read, primfunc_name_hint="clip")
