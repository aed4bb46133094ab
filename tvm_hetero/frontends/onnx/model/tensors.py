"""Tensors of a model: how large they say they are, and how much they bring.

ONNX stores a tensor's data in one of eight fields, raw or typed, or in another
file.  Nothing here trusts that the dimensions, the type and the data agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import onnx
from onnx import TensorProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, MAX_ELEMENTS, OnnxLimits
from tvm_hetero.util.untrusted_names import printable

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})

# Two, or four, elements share a byte of raw data; all other types take whole bytes.
_PACKED = {
    getattr(TensorProto, name): per_byte
    for name, per_byte in (
        ("UINT4", 2), ("INT4", 2), ("FLOAT4E2M1", 2), ("UINT2", 4), ("INT2", 4),
    )
    if hasattr(TensorProto, name)
}  # fmt: skip


_COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
# What has whole numbers of 32 bits for its own, of which the last are what counts.
_WITHIN_INT32 = {
    getattr(TensorProto, name): limits
    for name, limits in (
        ("INT8", (-(2**7), 2**7)), ("UINT8", (0, 2**8)), ("INT16", (-(2**15), 2**15)),
        ("UINT16", (0, 2**16)), ("FLOAT16", (0, 2**16)), ("BFLOAT16", (0, 2**16)),
    )
}  # fmt: skip


def element_count(dims: Sequence[int], what: str, limits: OnnxLimits = DEFAULT_LIMITS) -> int:
    """Return the product of `dims`.

    Parameters
    ----------
    dims : sequence of int
        Dimensions as the model states them.
    what : str
        The tensor, in words, for the error.
    limits : Limits
        Cap on the number of dimensions.

    Returns
    -------
    int
        Number of elements, at most ``MAX_ELEMENTS``.

    Raises
    ------
    ModelError
        A dimension is negative, there are too many, or the product passes 2**63 - 1.
    """
    if len(dims) > limits.rank:
        raise ModelError(f"{what} has {len(dims)} dimensions; at most {limits.rank} are accepted.")
    if any(d < 0 for d in dims):
        raise ModelError(
            f"{what} has the shape {_shape(dims)}; dimensions must not be negative. "
            "The file is damaged or made to harm: export the model again."
        )
    count = math.prod(dims)
    # With a zero among them the product says nothing about the others.
    if max(count, math.prod(d for d in dims if d)) > MAX_ELEMENTS:
        raise ModelError(
            f"{what} has the shape {_shape(dims)}, more than 2**63 - 1 elements. "
            "The file is damaged or made to harm: export the model again."
        )
    return count


def byte_size(data_type: int, count: int, what: str) -> int:
    """Return the bytes of raw data that `count` elements of ONNX type `data_type` take.

    Raises
    ------
    ModelError
        The type is not one with a fixed size.
    """
    if data_type in _PACKED:
        return -(-count // _PACKED[data_type])
    if data_type in _COMPLEX:
        raise ModelError(
            f"{what} is of complex numbers, which nothing here computes with. Export the model "
            "with their two parts side by side."
        )
    try:
        return count * int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize)
    except (KeyError, TypeError, ValueError):
        raise ModelError(
            f"{what} has the element type number {data_type}, which onnx {onnx.__version__} "
            "does not know. Export the model with a numeric type."
        ) from None


def all_tensors(model: onnx.ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """Yield each tensor of `model` with its description: initializers, then attributes."""
    for tensor in model.graph.initializer:
        yield f"initializer '{printable(tensor.name)}'", tensor
    for index, node in enumerate(model.graph.node):
        for attribute in node.attribute:
            where = f"attribute '{printable(attribute.name)}' of {describe(node, index)}"
            if attribute.HasField("t"):
                yield where, attribute.t
            yield from ((where, tensor) for tensor in attribute.tensors)


def describe(node: onnx.NodeProto, index: int | None = None) -> str:
    """Return a node in words: ``node 7 'conv1' (Conv)``; without the 7 where it is not known."""
    number = "" if index is None else f" {index}"
    name = f" '{printable(node.name)}'" if node.name else ""
    domain = f"{printable(node.domain)}::" if node.domain not in ("", "ai.onnx") else ""
    return f"node{number}{name} ({domain}{printable(node.op_type)})"


def check_sizes(model: onnx.ModelProto, limits: OnnxLimits) -> None:
    """Refuse tensors whose stated sizes are impossible or, together, too large.

    Reads dimensions and types alone, so it comes before any data is read.

    Raises
    ------
    ModelError
        See :func:`element_count`, :func:`byte_size`; or the sum passes the limit.
    """
    check_total(
        (
            byte_size(t.data_type, element_count(t.dims, what, limits), what)
            for what, t in all_tensors(model)
        ),
        limits,
    )


def check_total(sizes: Iterable[int], limits: OnnxLimits) -> None:
    """Refuse more than ``limits.weight_bytes`` of constants in all."""
    total = sum(sizes)
    if total > limits.weight_bytes:
        raise ModelError(
            f"The model's constants take {total} bytes; at most {limits.weight_bytes} are "
            "accepted. Load it with a larger `limits=Limits(weight_bytes=...)` if that is meant."
        )


def check_data(model: onnx.ModelProto) -> None:
    """Refuse tensors that bring less or more data than their shape and type say.

    Raises
    ------
    ModelError
        Names the tensor, what it has and what it should have.
    """
    for what, tensor in all_tensors(model):
        check_tensor(what, tensor)


def check_tensor(what: str, tensor: TensorProto) -> None:
    """Refuse a tensor as :func:`check_data` does; `what` it is, in words."""
    count = math.prod(tensor.dims)
    size = byte_size(tensor.data_type, count, what)
    if tensor.HasField("segment"):
        raise ModelError(
            f"{what} is a part of a tensor (segment). Export the model with whole ones."
        )
    if tensor.HasField("raw_data"):
        found, wanted, unit = len(tensor.raw_data), size, "bytes"
    else:
        found, wanted, unit = _typed(tensor), _typed_wanted(tensor, count), "values"
    if found != wanted:
        raise ModelError(
            f"{what} has the shape {_shape(tensor.dims)}, so {wanted} {unit} of data, but "
            f"brings {found}. The file is damaged: export the model again."
        )
    if not all(map(_is_text, tensor.string_data)):
        raise ModelError(
            f"{what} has text that is not UTF-8, which ONNX wants. "
            "The file is damaged: export the model again."
        )
    _check_within(what, tensor)


def _check_within(what: str, tensor: TensorProto) -> None:
    """Refuse numbers in the field of int32 that the tensor's own type does not hold."""
    if tensor.data_type not in _WITHIN_INT32 or not tensor.int32_data:
        return
    least, end = _WITHIN_INT32[tensor.data_type]
    low, high = min(tensor.int32_data), max(tensor.int32_data)
    if low < least or high >= end:
        raise ModelError(
            f"{what} has the number {low if low < least else high}, where its type takes {least} "
            f"to {end - 1}. The file is damaged: export the model again."
        )


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _typed(tensor: TensorProto) -> int:
    """Return the number of values in the one typed field that belongs to the tensor's type."""
    field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
    return len(getattr(tensor, field))


def _typed_wanted(tensor: TensorProto, count: int) -> int:
    """Return how many values the typed field should hold for `count` elements."""
    if tensor.data_type in _PACKED:
        return -(-count // _PACKED[tensor.data_type])
    return count


def _shape(dims: Sequence[int]) -> str:
    return printable("x".join(str(d) for d in dims) or "()")
