"""Fold, in NumPy, what TVM's importer leaves to compute from constants alone.

The importer adds operations of its own (a convolution's bias is reshaped to
(1, C, 1, 1)).  TVM's FoldConstant would compile and run a kernel for each; here each
is a view or one NumPy call.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

_LARGEST = 2**28
"""Elements that a result may have; larger ones are left for the compiled model."""

_VIEWS = frozenset({"relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten"})
_ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "relax.add": np.add,
    "relax.divide": np.divide,
    "relax.maximum": np.maximum,
    "relax.minimum": np.minimum,
    "relax.multiply": np.multiply,
    "relax.negative": np.negative,
    "relax.power": np.power,
    "relax.sqrt": np.sqrt,
    "relax.subtract": np.subtract,
}
_FOLDABLE = _VIEWS | _ARITHMETIC.keys() | {
    "relax.astype", "relax.broadcast_to", "relax.permute_dims",
}  # fmt: skip


def fold_relax_constants(module: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return `module` with operations on constants replaced by their results.

    Parameters
    ----------
    module : tvm.ir.IRModule
        As TVM's ONNX importer returns it; not changed.

    Returns
    -------
    tvm.ir.IRModule
        The functions keep their attributes.
    """
    folder = _Folder(module)
    for name, function in module.functions_items():
        if isinstance(function, relax.Function):
            folder.builder_.update_func(name, folder.visit_expr(function))
    result = folder.builder_.get()
    # The folded bindings now say `var = constant`; this puts the constants to their readers.
    return relax.transform.CanonicalizeBindings()(result)


@relax.expr_functor.mutator
class _Folder(relax.expr_functor.PyExprMutator):  # type: ignore[misc]
    """Replaces each foldable call by a constant, in the order of the bindings."""

    def __init__(self, module: tvm.ir.IRModule) -> None:
        super().__init__(module)
        self.module = module

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Return a constant for a call on constants, the visited call otherwise."""
        visited = self.visit_expr_post_order(call)
        # Weights are only fetched for what can be folded: each fetch is a copy.
        if getattr(visited.op, "name", None) not in _FOLDABLE:
            return visited
        operands = [self._constant(argument) for argument in visited.args]
        folded = evaluate(visited, call.ty, operands)
        return visited if folded is None else folded

    def _constant(self, argument: relax.Expr) -> np.ndarray | None:
        """Return the value of an argument that is, or is bound to, a constant."""
        if isinstance(argument, relax.Var):
            argument = self.lookup_binding(argument)
        return argument.value.numpy() if isinstance(argument, tvm.ir.GenericConst) else None


def evaluate(
    call: relax.Call, out: relax.Type, operands: list[np.ndarray | None]
) -> relax.Expr | None:
    """Return the constant that `call` makes of its (constant) operands, or None.

    Parameters
    ----------
    call : relax.Call
        Its operator and attributes count.
    out : relax.Type
        The type of its result, which must have a static shape.
    operands : list of ndarray or None
        One for each argument; None for what is no constant tensor.
    """
    shape = static_shape(out)
    if shape is None or not operands or operands[0] is None or np.prod(shape) > _LARGEST:
        return None
    name, first = call.op.name, operands[0]
    if name in _VIEWS:
        value = first.reshape(shape)
    elif name == "relax.permute_dims":
        axes = call.attrs.axes
        value = first.transpose(None if axes is None else [int(a) for a in axes])
    elif name == "relax.broadcast_to":
        value = np.broadcast_to(first, shape)
    elif name == "relax.astype":
        value = first
    elif name in _ARITHMETIC and all(o is not None for o in operands):
        with np.errstate(all="ignore"):
            value = _ARITHMETIC[name](*operands)
    else:
        return None
    dtype = str(out.dtype.dtype)
    return relax.const(np.ascontiguousarray(value, dtype).reshape(shape), dtype)


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
