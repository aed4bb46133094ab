"""Static shapes for all inputs, from the model and from what the user adds.

A placement is decided from measured times, and a time belongs to a shape; so
dimensions that an export left open (``batch``, ``?``) must be given.  A symbol
bound by one input's shape is bound wherever it appears.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.dimensions import is_closed, open_unwritten, shape_text
from tvm_hetero.frontends.onnx.fixed_values import set_values
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.tensors import byte_size, element_count
from tvm_hetero.frontends.onnx.open_inputs import find_open, refuse_open
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.text_tables import count_noun
from tvm_hetero.util.untrusted_names import printable


def fix_shapes(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None,
    fixed: Mapping[str, np.ndarray[Any, Any]] | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> None:
    """Make every input of `model` static, in place.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed: input shapes are set, shapes of intermediate values (now stale) removed.
    shapes : mapping of str to sequence of int, optional
        Full shapes by input name, for inputs with open dimensions.
    fixed : mapping of str to ndarray, optional
        Values of inputs (`fixed_values.read_values`), which become constants.
    limits : Limits
        Caps on the shapes.

    Raises
    ------
    ModelError
        An input's dimensions are still open (the text gives the option to pass), a given
        shape has an unknown name, another rank or contradicts the model, an input is no
        numeric tensor, or a shape is impossible.
    """
    inputs = apply_shapes(model, shapes, fixed)
    refuse_open(find_open(model, inputs, limits))
    for value in inputs:
        _check_dims(value, limits)
    _forget_stale(model)


def apply_shapes(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None,
    fixed: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> list[ValueInfoProto]:
    """Give inputs the shapes and values that the user gives, in place.

    Parameters
    ----------
    model, shapes, fixed
        As of `fix_shapes`.

    Returns
    -------
    list of ValueInfoProto
        The inputs that are left, some of them perhaps still open.

    Raises
    ------
    ModelError
        As of `fix_shapes`, but for what is open.
    """
    fixed = fixed or {}
    given = {**(shapes or {}), **{name: array.shape for name, array in fixed.items()}}
    for name in sorted((shapes or {}).keys() & fixed.keys()):
        raise ModelError(
            f"Both a shape and a value were given for '{printable(name)}'. The value has a shape: "
            "leave the other out."
        )
    constants = {t.name for t in model.graph.initializer} - fixed.keys()
    inputs = [i for i in model.graph.input if i.name not in constants]
    unknown = sorted(set(given) - {i.name for i in inputs})
    if unknown:
        raise ModelError(
            f"A shape was given for '{printable(unknown[0])}', which is no input of the model"
            f"{nearest(unknown[0], [i.name for i in inputs])}"
        )
    open_unwritten(model, given.keys())
    symbols: dict[str, int] = {}
    for value in inputs:
        _check_type(value)
        if value.name in given:
            what = "value" if value.name in fixed else "shape"
            _apply(value, list(given[value.name]), symbols, what)
    set_values(model, fixed)
    inputs = [value for value in inputs if value.name not in fixed]
    for value in inputs:
        _bind(value, symbols)
    return inputs


def _check_type(value: ValueInfoProto) -> None:
    tensor = value.type.tensor_type
    what = f"input '{printable(value.name)}'"
    if not value.type.HasField("tensor_type") or tensor.elem_type == TensorProto.STRING:
        raise ModelError(
            f"{what} is no numeric tensor (a sequence, map, optional or text). "
            "Export the model with numeric tensors as inputs."
        )
    byte_size(tensor.elem_type, 1, what)


def _apply(value: ValueInfoProto, dims: list[int], symbols: dict[str, int], given: str) -> None:
    """Set the shape of one input to the given one, where the model leaves it open."""
    what = f"input '{printable(value.name)}'"
    shape = value.type.tensor_type.shape
    if not value.type.tensor_type.HasField("shape"):
        for _ in dims:
            shape.dim.add()
        shape.SetInParent()
    if len(dims) != len(shape.dim):
        raise ModelError(
            f"{what} has {count_noun(len(shape.dim), 'dimension')} ({shape_text(value)}), but the "
            f"{given} given has {len(dims)} ({'x'.join(map(str, dims)) or 'scalar'}). "
            + (f"Give all {len(shape.dim)}." if shape.dim else "It is a scalar: a single number.")
        )
    stated = shape_text(value)
    for axis, (dim, size) in enumerate(zip(shape.dim, dims, strict=True)):
        fixed = dim.dim_value if dim.HasField("dim_value") else symbols.get(dim.dim_param, size)
        if fixed != size:
            raise ModelError(
                f"Dimension {axis} of {what} ({stated}) is {fixed} in the model or by "
                f"another shape given, but {size} was asked for. Give {fixed}, or export the "
                "model again with that dimension open."
            )
        if dim.dim_param:
            symbols[dim.dim_param] = size
        dim.dim_value = size


def _bind(value: ValueInfoProto, symbols: dict[str, int]) -> None:
    """Fill in the symbols that the shapes of other inputs have settled."""
    for dim in value.type.tensor_type.shape.dim:
        if not dim.HasField("dim_value") and dim.dim_param in symbols:
            dim.dim_value = symbols[dim.dim_param]


def _check_dims(value: ValueInfoProto, limits: OnnxLimits) -> None:
    dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
    what = f"input '{printable(value.name)}'"
    element_count(dims, what, limits)


def _forget_stale(model: onnx.ModelProto) -> None:
    """Drop stated shapes that may still carry symbols; inference finds them again."""
    del model.graph.value_info[:]
    for value in model.graph.output:
        if value.type.HasField("tensor_type") and not is_closed(value):
            value.type.tensor_type.ClearField("shape")
