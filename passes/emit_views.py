"""Writing a lowered function again: kernels, and the views between them.

A function's calls are written anew on *places*: a device, and an element of the batch. Given a
way to get a root on a place, this writes arguments and views there, each view once a place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.passes.lowered_main import KernelCall, LoweredMain, Root, is_copy, static_shape

# A device (its position) and an element of the batch.
Place = tuple[int, int]


class ViewEmitter:
    """Writes arguments and views of `main` with `builder`.

    `tensor(root, place)` must give the variable that holds `root` on `place`;
    `constant(const, place)` likewise for constants.
    """

    def __init__(
        self,
        builder: relax.BlockBuilder,
        main: LoweredMain,
        tensor: Callable[[Root, Place], Any],
        constant: Callable[[Any, Place], Any],
    ) -> None:
        self._builder = builder
        self._main = main
        self._tensor = tensor
        self._constant = constant
        # Written views: by their variable in `main`, and by what they are (several variables of
        # `main` may be the same view of the same tensor).
        self._views: dict[tuple[Any, Place], Any] = {}
        self._reshaped: dict[tuple[Any, tuple[int, ...]], Any] = {}

    def value(self, expr: Any, place: Place) -> Any:
        """`expr`, an argument or a result in `main`, as it is called on `place`."""
        if isinstance(expr, tvm.ir.GenericConst):
            return self._constant(expr, place)
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self.value(field, place) for field in expr.fields])
        if isinstance(expr, relax.Var) and expr in self._main.views:
            if (expr, place) not in self._views:
                self._views[expr, place] = self._view(expr, self._main.views[expr], place)
            return self._views[expr, place]
        root = self._main.root(expr)
        assert root is not None
        return self._tensor(root, place)

    def _view(self, var: relax.Var, expr: Any, place: Place) -> Any:
        """Write the view `expr`, which `main` calls `var`."""
        if not isinstance(expr, relax.Call) or is_copy(expr):
            return self.value(expr.args[0] if is_copy(expr) else expr, place)
        tensor = self.value(expr.args[0], place)
        key = (tensor, static_shape(var.ty, var.name))
        if key not in self._reshaped:
            call = relax.Call(expr.op, [tensor, *expr.args[1:]], expr.attrs)
            self._reshaped[key] = self._builder.emit(call, var.name)
        return self._reshaped[key]

    def call(
        self,
        call: KernelCall,
        kernel: tvm.ir.GlobalVar,
        out_ty: Any,
        device: int,
        elements: Sequence[int],
    ) -> relax.Var:
        """Write a call of `kernel` with the arguments of `call`, for some elements at once.

        Where `call` itself is for several, `elements` is one of them.
        """
        args = []
        for group, constant in self._main.arguments(call):
            for element in elements if constant is None else elements[:1]:
                source = group[call.elements.index(element)] if len(group) > 1 else group[0]
                args.append(self.value(source, (device, element)))
        expr = relax.Call(call.expr.op, [kernel, relax.Tuple(args)], call.expr.attrs, [out_ty])
        return self._builder.emit(expr, call.var.name)


def with_vdevice(ty: Any, vdevice: Any | None) -> Any:
    """A tensor type, or a tuple of them, on another virtual device (None: on none)."""
    if isinstance(ty, relax.TupleType):
        return relax.TupleType([with_vdevice(field, vdevice) for field in ty.fields])
    if vdevice is None:
        return relax.TensorType(ty.shape, ty.dtype)
    return relax.TensorType(ty.shape, ty.dtype, vdevice)


def device_position(ty: relax.TensorType, vdevices: Sequence[Any]) -> int:
    """The position in `vdevices` of the virtual device that a tensor type names.

    Raises
    ------
    ModelError
        If it is not among them.
    """
    for i, vdevice in enumerate(vdevices):
        # Not `same_as`: that of GlobalInfo recurses without end in TVM 0.27.
        if ty.vdevice is not None and tvm_ffi.structural_equal(vdevice, ty.vdevice):
            return i
    raise ModelError(f"{ty}: its device is not among the module's; annotate the module again")
