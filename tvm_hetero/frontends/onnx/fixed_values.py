"""Inputs that the user fixes to a value: they become constants of the model.

Networks ask for what is the same in every run (a sampling rate, a number of beams, a flag), and
choose between graphs, or compute shapes, by it.  Fixed, all of that folds, and the artifact no
longer has the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ValueInfoProto, helper, numpy_helper

from tvm_hetero.errors import ModelError
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.untrusted_names import printable

_LISTS_FROM = 4
"""The first ir_version in which initializers need not be listed as inputs."""


def read_values(
    model: onnx.ModelProto, values: Mapping[str, Any] | None
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values as arrays of the types that the model declares.

    Parameters
    ----------
    model : onnx.ModelProto
        Of which the inputs are; not changed.
    values : mapping of str to number, list or array, optional
        By input name.  Numbers and lists of numbers take the input's type; arrays must have it.

    Returns
    -------
    dict of str to ndarray
        Of the declared types; that the shapes fit is for `shapes.fix_shapes` to check.

    Raises
    ------
    ModelError
        A name is none of an input, or a value has another type than its input.
    """
    inputs = {value.name: value for value in model.graph.input}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, given in (values or {}).items():
        if name not in inputs:
            raise ModelError(
                f"A value was given for '{printable(name)}', which is no input of the model"
                f"{nearest(name, list(inputs))}"
            )
        arrays[name] = _as_declared(inputs[name], given)
    return arrays


def set_values(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Make constants of inputs, in place.

    Parameters
    ----------
    model : onnx.ModelProto
        An initializer that gives such an input a default is replaced.
    arrays : mapping of str to ndarray
        As `read_values` returns them, of shapes that fit.
    """
    graph = model.graph
    inputs = [value for value in graph.input if value.name not in arrays]
    if not arrays:
        return
    del graph.input[:]
    graph.input.extend(inputs)
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name in arrays:
            del graph.initializer[index]
    for name, array in arrays.items():
        graph.initializer.append(numpy_helper.from_array(array, name))
    model.ir_version = max(model.ir_version, _LISTS_FROM)


def _as_declared(value: ValueInfoProto, given: Any) -> np.ndarray[Any, Any]:
    """Return one value with the type of its input, and a lone number in its shape of ones."""
    what = f"input '{printable(value.name)}'"
    kind = value.type.tensor_type.elem_type
    if not value.type.HasField("tensor_type") or kind == onnx.TensorProto.STRING:
        raise ModelError(
            f"{what} is no numeric tensor (a sequence, map, optional or text), so that no value "
            "can be given for it. Take a form of the model with numeric inputs."
        )
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    array = _converted(given, dtype, what)
    dims = value.type.tensor_type.shape.dim
    if array.ndim == 0 and all(d.dim_value == 1 for d in dims):
        return array.reshape([1] * len(dims))
    return array


def _converted(given: Any, dtype: np.dtype[Any], what: str) -> np.ndarray[Any, Any]:
    """Return an array of `dtype`; refuses what would come out as another value."""
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype == dtype:
        return array
    typed = isinstance(given, np.ndarray | np.generic)
    # Of an empty list NumPy makes float64.
    fits = array.dtype.kind == "f" and (_is_floating(dtype) or array.size == 0)
    if array.dtype.kind in "iu":
        fits = dtype.kind != "b"
    if typed or not fits:
        got = array.dtype.name if typed else printable(repr(given))
        raise ModelError(f"{what} is of type {dtype.name}, but its value was given as {got}.")
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
    if array.dtype.kind in "iu" and not np.array_equal(result.astype(array.dtype), array):
        raise ModelError(
            f"{what} is of type {dtype.name}, which cannot hold {printable(repr(given))}."
        )
    return result


def _is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether a type is a float's, also one that NumPy does not have itself."""
    return dtype.kind == "f" or (dtype.kind == "V" and "int" not in dtype.name)
