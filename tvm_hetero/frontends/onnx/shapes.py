"""Static shapes for all inputs, from the model and from what the user adds.

A placement is decided from measured times, and a time belongs to a shape; so
dimensions that an export left open (``batch``, ``?``) must be given.  A symbol
bound by one input's shape is bound wherever it appears.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import TensorProto, ValueInfoProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.tensors import byte_size, element_count
from tvm_hetero.util.documents import nearest
from tvm_hetero.util.text_tables import count_noun
from tvm_hetero.util.untrusted_names import printable


def fix_shapes(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None,
    fixed: Mapping[str, Sequence[int]] | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> None:
    """Make every input of `model` static, in place.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed: input shapes are set, shapes of intermediate values (now stale) removed.
    shapes : mapping of str to sequence of int, optional
        Full shapes by input name, for inputs with open dimensions.
    fixed : mapping of str to sequence of int, optional
        Shapes of the values to which inputs are fixed.
    limits : Limits
        Caps on the shapes.

    Raises
    ------
    ModelError
        An input's dimensions are still open (the text gives the option to pass), a given
        shape has an unknown name, another rank or contradicts the model, an input is no
        numeric tensor, or a shape is impossible.
    """
    given = {**(shapes or {}), **(fixed or {})}
    for name in (shapes or {}).keys() & (fixed or {}).keys():
        raise ModelError(
            f"Both a shape and a value were given for '{printable(name)}'. The value has a shape: "
            "leave the other out."
        )
    constants = {t.name for t in model.graph.initializer} - set(fixed or {})
    inputs = [i for i in model.graph.input if i.name not in constants]
    unknown = sorted(set(given) - {i.name for i in inputs})
    if unknown:
        raise ModelError(
            f"A shape was given for '{printable(unknown[0])}', which is no input of the model"
            f"{nearest(unknown[0], [i.name for i in inputs])}"
        )
    symbols: dict[str, int] = {}
    for value in inputs:
        _check_type(value)
        if value.name in given:
            what = "value" if value.name in (fixed or {}) else "shape"
            _apply(value, list(given[value.name]), symbols, what)
    for value in inputs:
        _bind(value, symbols)
    _refuse_open([v for v in inputs if not _closed(v)])
    for value in inputs:
        _check_dims(value, limits)
    _forget_stale(model)


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
            f"{what} has {count_noun(len(shape.dim), 'dimension')} ({_text(value)}), but the "
            f"{given} given has {len(dims)} ({'x'.join(map(str, dims)) or 'scalar'}). "
            + (f"Give all {len(shape.dim)}." if shape.dim else "It is a scalar: a single number.")
        )
    stated = _text(value)
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


def _closed(value: ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)


def _refuse_open(open_inputs: list[ValueInfoProto]) -> None:
    if not open_inputs:
        return
    listed = ", ".join(f"'{printable(v.name)}' ({_text(v)})" for v in open_inputs[:5])
    example = "x".join(
        str(d.dim_value) if d.HasField("dim_value") else "1"
        for d in open_inputs[0].type.tensor_type.shape.dim
    )
    example = example or "1x3x224x224"
    name = printable(open_inputs[0].name)
    raise ModelError(
        f"The model leaves dimensions of its inputs open: {listed}. A placement is for one "
        f"shape: pass --shape {name}={example} on the command line, or "
        f"shapes={{'{name}': ({example.replace('x', ', ')},)}} in Python."
    )


def _check_dims(value: ValueInfoProto, limits: OnnxLimits) -> None:
    dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
    what = f"input '{printable(value.name)}'"
    element_count(dims, what, limits)


def _forget_stale(model: onnx.ModelProto) -> None:
    """Drop stated shapes that may still carry symbols; inference finds them again."""
    del model.graph.value_info[:]
    for value in model.graph.output:
        if value.type.HasField("tensor_type") and not _closed(value):
            value.type.tensor_type.ClearField("shape")


def _text(value: ValueInfoProto) -> str:
    """Return a shape as people write it, with ``?`` or the symbol for what is open."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return "unknown rank"
    dims = (
        str(d.dim_value) if d.HasField("dim_value") else (d.dim_param or "?")
        for d in tensor.shape.dim
    )
    return printable("x".join(dims)) or "scalar"
