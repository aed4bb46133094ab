"""A Relax module on its way back from a child: TVM's JSON, and weights that are not in it.

TVM writes constants as text, which takes longer than all the rest. So each large one is a parameter
of ``main`` on the way, behind the model's own. The parent binds it again to the bytes that the
child has put into the files of weights, or sends.

Sections: JSON of the weights (type, shape, and in which file they begin where, if in any),
the module's JSON, the bytes of those weights that are not.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (names of its types are NumPy's then)
import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm_ffi.serialization import from_json_graph_str

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.conversion.memory_files import MemoryFiles
from tvm_hetero.processes.forked_child import Section
from tvm_hetero.util.untrusted_names import printable

_LARGE = 1024
"""Elements beyond which a constant is no part of the text."""
_SPOILT = (
    ArithmeticError, ValueError, KeyError, TypeError, IndexError, RuntimeError, AttributeError,
)  # fmt: skip
"""What an answer raises that is not as a child of ours makes it."""


def pack_module(module: tvm.IRModule, files: MemoryFiles) -> list[Section]:
    """Return a module as sections.

    Parameters
    ----------
    module : IRModule
        As an import makes it.
    files : MemoryFiles
        Where some of its constants are already.
    """
    weights: list[tuple[relax.Var, GenericConst]] = []

    def as_parameter(constant: GenericConst) -> relax.Expr:
        if _is_written(constant):
            return constant
        weights.append((relax.Var(f"weight{len(weights)}", constant.ty), constant))
        return weights[-1][0]

    main = module["main"]
    body = _with_operands(main.body, as_parameter)
    lifted = relax.Function(
        [*main.params, *(var for var, _ in weights)], body, main.ret_ty, main.is_pure, main.attrs
    )
    others = {name: each for name, each in module.functions.items() if name.name_hint != "main"}
    text = tvm.ir.save_json(
        tvm.IRModule({module.get_global_var("main"): lifted, **others}, attrs=module.attrs)
    )
    origins: list[dict[str, Any]] = []
    sent: list[Section] = []
    for _, constant in weights:
        array, place = _view(constant.value), files.place_of(constant.value)
        origins.append({"dtype": array.dtype.name, "shape": array.shape, "place": place})
        if place is None:
            sent.append(array.reshape(-1).view(np.uint8).data)
    return [json.dumps(origins).encode(), text.encode(), *sent]


def unpack_module(sections: Sequence[Section], files: Sequence[memoryview]) -> tvm.IRModule:
    """Return the module of sections, with its weights as constants.

    Parameters
    ----------
    sections : sequence of bytes
        As of `pack_module`.
    files : sequence of memoryview
        What is in each file of weights.

    Raises
    ------
    ModelError
        What came back is no module, or its weights are other ones.
    """
    try:
        origins = json.loads(bytes(sections[0]))
        # Not `tvm.ir.load_json`: it looks through the text for what older TVMs wrote, which takes
        # five times as long as reading it (DenseNet-121: 0.07 s of 0.09).
        module = from_json_graph_str(bytes(sections[1]).decode())
        arrays = _arrays(origins, sections[2:], files)
        parameters = list(module["main"].params)[-len(arrays) :] if arrays else []
        if len(parameters) != len(arrays):
            raise ValueError(f"{len(arrays)} weights for {len(parameters)} parameters")
        for var, array in zip(parameters, arrays, strict=True):
            _require_fit(var, array)
        # Not by name: inputs of the model may be called as these are.
        values = {var: _tensor(array) for var, array in zip(parameters, arrays, strict=True)}
        return relax.transform.BindParams("main", values)(module)
    except _SPOILT as error:
        raise ModelError(
            f"What the child made of the model is no module ({printable(error, 200)}). "
            "Please report it."
        ) from None


def _is_written(constant: GenericConst) -> bool:
    """Whether a constant is part of the text: TVM reads no empty ones, and none of packed types."""
    whole = int(constant.value.dtype.bits) % 8 == 0 or str(constant.value.dtype) == "bool"
    return whole and 0 < math.prod(map(int, constant.value.shape)) <= _LARGE


def _arrays(
    origins: Sequence[Mapping[str, Any]], sent: Sequence[Section], files: Sequence[memoryview]
) -> list[np.ndarray[Any, Any]]:
    """Return each weight, as the child says that it is."""
    rest = iter(sent)
    return [
        _read(next(rest), 0, origin) if origin["place"] is None else _read_file(files, origin)
        for origin in origins
    ]


def _read_file(files: Sequence[memoryview], origin: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Return the weight that begins somewhere in a file."""
    file, start = origin["place"]
    if file < 0:
        raise ValueError(f"a weight is in file {file}")
    if start % mmap.PAGESIZE:  # TVM's kernels read it where it lies
        raise ValueError(f"a weight begins at byte {start}, within a page")
    return _read(files[file], start, origin)


def _read(given: Section, start: int, origin: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Return the weight that begins somewhere in some bytes."""
    dtype, shape = np.dtype(origin["dtype"]), tuple(origin["shape"])
    count = math.prod(shape)
    # NumPy takes no view of nothing.
    flat = np.frombuffer(given, dtype, count, start) if count else np.empty(0, dtype)
    return flat.reshape(shape)


def _require_fit(var: relax.Var, array: np.ndarray[Any, Any]) -> None:
    """Refuse an array that is not as the parameter to which it is bound."""
    dims, dtype = tuple(map(int, var.ty.shape.values)), str(var.ty.dtype)
    if (dims, dtype) != (array.shape, array.dtype.name):
        raise ValueError(
            f"{var.name} is {dtype} {dims}, but its weight {array.dtype.name} {array.shape}"
        )


def _view(tensor: tvm.runtime.Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor's data, without a copy where NumPy has the type itself."""
    try:
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return np.ascontiguousarray(tensor.numpy())


def _tensor(array: np.ndarray[Any, Any]) -> tvm.runtime.Tensor:
    """Return an array as a tensor, without a copy where NumPy has the type itself."""
    try:
        return tvm.runtime.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return tvm.runtime.tensor(array)


def _with_operands(
    body: relax.SeqExpr, change: Callable[[GenericConst], relax.Expr]
) -> relax.SeqExpr:
    """Return a body in which constants that calls read are what `change` makes of them."""
    blocks = []
    for block in body.blocks:
        bindings = [_changed_binding(binding, change) for binding in block.bindings]
        kind = relax.DataflowBlock if isinstance(block, relax.DataflowBlock) else relax.BindingBlock
        blocks.append(kind(bindings))
    return relax.SeqExpr(blocks, body.body)


def _changed_binding(
    binding: relax.Binding, change: Callable[[GenericConst], relax.Expr]
) -> relax.Binding:
    call = binding.value if isinstance(binding, relax.VarBinding) else None
    if isinstance(call, GenericConst | relax.Tuple):  # outputs
        return relax.VarBinding(binding.var, _changed(call, change))
    if not isinstance(call, relax.Call):
        return binding
    args = [_changed(arg, change) for arg in call.args]
    if all(new.same_as(old) for new, old in zip(args, call.args, strict=True)):
        return binding
    made = relax.Call(call.op, args, call.attrs, call.ty_args, call.span, call.ty)
    return relax.VarBinding(binding.var, made)


def _changed(value: relax.Expr, change: Callable[[GenericConst], relax.Expr]) -> relax.Expr:
    if isinstance(value, GenericConst):
        return change(value)
    if not isinstance(value, relax.Tuple):
        return value
    fields = [_changed(field, change) for field in value.fields]
    if all(new.same_as(old) for new, old in zip(fields, value.fields, strict=True)):
        return value
    return relax.Tuple(fields)
