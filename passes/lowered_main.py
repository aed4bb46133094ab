"""What a lowered ``main`` says, as plain data: calls of kernels, views, and who reads what.

All our passes analyse first and rewrite after. This is the analysis that they share: it reads a
lowered Relax function (see `tvm_hetero.passes.lower_to_tasks`) once and answers questions about
it. Everything is keyed by binding, never by name, since Relax does not keep names unique.

A *root* is a tensor that exists in memory: a parameter, a constant, or one output of a kernel.
A *view* (reshape, tuple item, alias, copy between devices) is another name of a root: it costs
nothing and is made again wherever it is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.passes.attributes import INPUT_NAMES, TASK_IDS
from tvm_hetero.plan.element_names import element_name, split_task


@dataclass(frozen=True)
class TensorSource:
    """A tensor in memory: output `index` of call `call`, or (`call` is None) parameter `index`."""

    call: int | None
    index: int


@dataclass(frozen=True)
class KernelCall:
    """One ``R.call_tir``: the `position`-th of the function.

    It computes `elements` of the batch, mostly one. Arguments that are no constants are there for
    each of them, one after the other; so is each output.
    """

    position: int
    var: relax.Var
    expr: relax.Call
    kernel: tvm.ir.GlobalVar
    args: tuple[Any, ...]
    outputs: tuple[relax.TensorType, ...]
    elements: tuple[int, ...] = (0,)

    @property
    def is_tuple(self) -> bool:
        """Whether the call has several outputs, so that its value is a tuple."""
        return isinstance(self.expr.ty_args[0], relax.TupleType)

    @property
    def results(self) -> int:
        """How many outputs there are of each element."""
        return len(self.outputs) // len(self.elements)


@dataclass(frozen=True)
class LoweredMain:
    """A lowered function, read.

    `views` maps a view's variable to the expression that it is. ``task_ids[i]`` is the name of
    call i in a task graph: ``<position>.<kernel>``, unique because of the position, readable
    because of the kernel. An annotated module has other positions (its calls stand in the order
    of a schedule), so it carries the ids in the attribute `TASK_IDS`; in that of a batch they bear
    the elements (`tvm_hetero.plan.element_names`).
    """

    function: relax.Function
    params: tuple[relax.Var, ...]
    calls: tuple[KernelCall, ...]
    views: dict[Any, Any]
    result: Any
    task_ids: tuple[str, ...]
    _call_of: dict[Any, int] = field(repr=False)
    _param_of: dict[Any, int] = field(repr=False)

    def root(self, expr: Any) -> TensorSource | None:
        """The root that `expr` names; None for a constant, or a view of one.

        Raises
        ------
        ModelError
            If the expression is neither a constant nor the name of one tensor.
        """
        origin = self._origin(expr)
        return origin if isinstance(origin, TensorSource) else None

    def constants(self, call: KernelCall) -> tuple[Any | None, ...]:
        """For each argument of a call the constant that it is (perhaps through views), or None."""
        return tuple(self.constant(arg) for arg in call.args)

    def constant(self, expr: Any) -> Any | None:
        """The value of the constant that `expr` names (perhaps through views); None for others."""
        origin = self._origin(expr)
        return None if isinstance(origin, TensorSource) else origin.value

    def arguments(self, call: KernelCall) -> list[tuple[tuple[Any, ...], Any | None]]:
        """The arguments of a call as those of one element: for each the expressions that it is for
        each of the call's elements, and None; or that of a constant, and its value.
        """
        found = []
        args = list(zip(call.args, self.constants(call), strict=True))
        while args:
            value = args[0][1]
            count = len(call.elements) if value is None else 1
            found.append((tuple(arg for arg, _ in args[:count]), value))
            del args[:count]
        return found

    def shared(self, call: KernelCall) -> tuple[int, ...]:
        """Which arguments (as `arguments` counts them) are constants: the same for all elements."""
        values = (value for _, value in self.arguments(call))
        return tuple(k for k, value in enumerate(values) if value is not None)

    def _origin(self, expr: Any) -> Any:
        """The root or the constant that `expr` names."""
        if isinstance(expr, tvm.ir.GenericConst):
            return expr
        if isinstance(expr, relax.TupleGetItem):
            return self._item_origin(expr.tuple_value, int(expr.index))
        if isinstance(expr, relax.Call):  # reshape, to_vdevice: the first argument is the tensor
            return self._origin(expr.args[0])
        if expr in self._call_of:
            return TensorSource(self._call_of[expr], 0)
        if expr in self.views:
            return self._origin(self.views[expr])
        if expr in self._param_of:
            return TensorSource(None, self._param_of[expr])
        raise ModelError(f"{expr}: expected the name of one tensor; is the module lowered?")

    def _item_origin(self, expr: Any, index: int) -> Any:
        while isinstance(expr, relax.Var) and expr in self.views:
            expr = self.views[expr]
        if isinstance(expr, relax.Tuple):
            return self._origin(expr.fields[index])
        if expr in self._call_of:
            return TensorSource(self._call_of[expr], index)
        raise ModelError(f"item {index} of {expr}: expected a tuple that a kernel made")

    def tensor_name(self, root: TensorSource) -> str:
        """The name of a kernel's output in the task graph: the task's id, ``:k`` behind it for
        output k of a kernel with several outputs.
        """
        assert root.call is not None
        call, name = self.calls[root.call], self.task_ids[root.call]
        output, place = divmod(root.index, len(call.elements))
        if len(call.elements) > 1:
            name = element_name(split_task(name)[0], call.elements[place])
        several = call.is_tuple and (call.results > 1 or len(call.elements) == 1)
        return f"{name}:{output}" if several else name

    def type_of(self, root: TensorSource) -> relax.TensorType:
        """The type of a root."""
        if root.call is None:
            return self.params[root.index].ty
        return self.calls[root.call].outputs[root.index]

    def reads(self, call: KernelCall) -> tuple[TensorSource, ...]:
        """The distinct roots that a call reads, in the order of its arguments."""
        roots = (self.root(arg) for arg in call.args)
        return tuple(dict.fromkeys(root for root in roots if root is not None))

    def results(self) -> tuple[Any, ...]:
        """The expressions that the function returns, a single one as a tuple of one.

        Raises
        ------
        ModelError
            If one of them is a tuple itself.
        """
        result = self.result
        while isinstance(result, relax.Var) and result in self.views:
            inner = self.views[result]
            if not isinstance(inner, relax.Tuple | relax.Var):
                break
            result = inner
        if isinstance(result, relax.Tuple):
            fields = tuple(result.fields)
        elif self.returns_tuple:  # all outputs of one kernel
            count = len(self.function.ret_ty.fields)
            fields = tuple(relax.TupleGetItem(result, i) for i in range(count))
        else:
            fields = (result,)
        for i, field_ in enumerate(fields):
            if not isinstance(field_.ty, relax.TensorType):
                raise ModelError(
                    f"output {i} of the model is a {field_.ty}; expected a tensor: return the "
                    "tensors of a tuple one by one"
                )
        return fields

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(kept_names(self.function, INPUT_NAMES, len(self.params), "input"))

    @property
    def returns_tuple(self) -> bool:
        """Whether the function returns a tuple (perhaps of one tensor)."""
        return isinstance(self.function.ret_ty, relax.TupleType)


def read_main(mod: tvm.IRModule) -> LoweredMain:
    """Read the ``main`` of a lowered module.

    Raises
    ------
    ModelError
        If there is no ``main``, or it holds something else than kernel calls and views on
        tensors of known shapes. The message names the binding.
    """
    if "main" not in {gv.name_hint for gv in mod.get_global_vars()}:
        names = ", ".join(sorted(gv.name_hint for gv in mod.get_global_vars()))
        raise ModelError(f"the module has no function 'main'; it has: {names or 'nothing'}")
    function = mod["main"]
    calls: list[KernelCall] = []
    views: dict[Any, Any] = {}
    for var, value in bindings(function):
        if is_kernel_call(value):
            calls.append(_read_call(len(calls), var, value))
        elif is_view(value):
            views[var] = value
        else:
            raise ModelError(
                f"'{var.name} = {value!s:.200}' is neither a call of a kernel nor a view; "
                "lower the module with LowerToTasks first, or report the operator"
            )
    for param in function.params:
        if not isinstance(param.ty, relax.TensorType):
            raise ModelError(f"parameter {param.name!r}: expected a tensor, got {param.ty}")
        static_shape(param.ty, f"parameter {param.name!r}")
    task_ids = _task_ids(function, calls)
    if function.attrs and TASK_IDS in function.attrs:  # else no id is of a batch
        own = [split_task(name)[1] for name in task_ids]
        calls = [replace(call, elements=e) for call, e in zip(calls, own, strict=True)]
    return LoweredMain(
        function=function,
        params=tuple(function.params),
        calls=tuple(calls),
        views=views,
        result=function.body.body,
        task_ids=task_ids,
        _call_of={call.var: call.position for call in calls},
        _param_of={param: i for i, param in enumerate(function.params)},
    )


def _task_ids(function: relax.Function, calls: Sequence[KernelCall]) -> tuple[str, ...]:
    kept = function.attrs.get(TASK_IDS) if function.attrs else None
    if kept is not None and len(kept) == len(calls):
        return tuple(str(name) for name in kept)
    return tuple(f"{call.position}.{call.kernel.name_hint}" for call in calls)


def original_position(task_id: str) -> int:
    """Where a task's call stood in the model before any placement (see `LoweredMain`)."""
    return int(task_id.split(".", 1)[0])


def bindings(function: relax.Function) -> Iterator[tuple[relax.Var, Any]]:
    """Every (variable, value) of a function in normal form, in order."""
    if not isinstance(function.body, relax.SeqExpr):
        raise ModelError("the function is not in normal form; run relax.transform.Normalize()")
    for block in function.body.blocks:
        for binding in block.bindings:
            yield binding.var, binding.value


def is_kernel_call(value: Any) -> bool:
    """Whether a value is an ``R.call_tir``."""
    return _op_name(value) == "relax.call_tir"


def is_copy(value: Any) -> bool:
    """Whether a value is an ``R.to_vdevice``."""
    return _op_name(value) == "relax.to_vdevice"


def is_view(value: Any) -> bool:
    """Whether a value names tensors that exist already (see the module's text)."""
    if isinstance(value, relax.Var | relax.TupleGetItem | relax.Tuple | tvm.ir.GenericConst):
        return True
    return _op_name(value) in {"relax.reshape", "relax.to_vdevice"}


def _op_name(value: Any) -> str:
    if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op):
        return str(value.op.name)
    return ""


def _read_call(position: int, var: relax.Var, value: relax.Call) -> KernelCall:
    kernel, args = value.args[0], value.args[1]
    if len(value.args) > 2:
        raise ModelError(f"{var.name}: kernel {kernel.name_hint!r} takes a symbolic shape")
    out = value.ty_args[0]
    outputs = tuple(out.fields) if isinstance(out, relax.TupleType) else (out,)
    for ty in outputs:
        static_shape(ty, f"output of kernel {kernel.name_hint!r}")
    fields = tuple(args.fields) if isinstance(args, relax.Tuple) else (args,)
    return KernelCall(position, var, value, kernel, fields, outputs)


def static_shape(ty: relax.TensorType, where: str) -> tuple[int, ...]:
    """The shape of a tensor type as integers.

    Raises
    ------
    ModelError
        If a dimension is unknown.
    """
    values = None if ty.shape is None else getattr(ty.shape, "values", None)
    dims = None if values is None else tuple(values)  # each item costs a call of TVM's
    if dims is None or not all(isinstance(d, tvm.tirx.IntImm) for d in dims):
        raise ModelError(
            f"{where} has the shape {ty.shape}; expected integers: import the model with "
            "fixed shapes (--shape NAME=1x3x224x224)"
        )
    return tuple(int(d) for d in dims)


def tensor_bytes(ty: relax.TensorType) -> int:
    """Size of a tensor in bytes.

    Raises
    ------
    ModelError
        If its elements are no whole bytes.
    """
    dtype = tvm_ffi.dtype(str(ty.dtype))
    if dtype.bits % 8 != 0:
        raise ModelError(
            f"a tensor has elements of type {ty.dtype}, which are no whole bytes; expected a type "
            "such as float32, float16 or int8: export the model without packed types"
        )
    return math.prod(static_shape(ty, "tensor")) * dtype.bits * dtype.lanes // 8


def names_of(mod: tvm.IRModule, attribute: str, count: int, stem: str) -> Sequence[str]:
    """Names kept in an attribute of ``main``, or `stem`0, `stem`1, ... where there are none."""
    return kept_names(mod["main"], attribute, count, stem)


def kept_names(function: relax.Function, attribute: str, count: int, stem: str) -> Sequence[str]:
    """As `names_of`, for the function itself."""
    kept = function.attrs.get(attribute) if function.attrs else None
    if kept is not None and len(kept) == count:
        return [str(name) for name in kept]
    return [f"{stem}{i}" for i in range(count)]
