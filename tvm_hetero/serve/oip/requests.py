"""From what came to what is computed: JSON, JSON with bytes behind it, bytes alone, or .npy.

The binary extension puts tensors behind the JSON, one after the other; they are used where they
are. `InferRequest` is the same for all forms.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_hetero.executor.inputs import TensorInfo
from tvm_hetero.executor.tensors import numpy_type
from tvm_hetero.serve.core.refusal import RequestError
from tvm_hetero.serve.models.tensor_model import Signature
from tvm_hetero.serve.oip.datatypes import BINARY_ONLY, check_datatype
from tvm_hetero.serve.oip.messages import InferMessage, InputMessage, Parameters, read_message
from tvm_hetero.serve.oip.npy import read_npy
from tvm_hetero.serve.oip.numbers import read_numbers
from tvm_hetero.serve.oip.parameters import check_parameters, flag
from tvm_hetero.util.quote import quote

Body = bytes | bytearray | memoryview
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class WantedOutput:
    """An output that is to be answered, as numbers in JSON or as bytes."""

    name: str
    is_binary: bool


@dataclass(frozen=True)
class InferRequest:
    """Inputs, and the form of the answer.

    Attributes
    ----------
    inputs : arrays by name; items : how many elements they have.
    outputs : what is asked for, in this order.
    parameters : of the whole request; id : echoed.
    """

    inputs: Arrays
    items: int
    outputs: tuple[WantedOutput, ...]
    parameters: Parameters = field(default_factory=dict)
    id: str | None = None


def read_json(
    body: Body, head: int | None, signature: Signature
) -> Generator[None, None, InferRequest]:
    """A request in JSON, with tensors behind it where `head` says how long the JSON is.

    Raises
    ------
    RequestError
        If it is not one that the model can compute.
    """
    text = body if head is None else bytes(body[:head])
    message = read_message(text if isinstance(text, bytes | bytearray) else bytes(text))
    check_parameters(message.parameters)
    shapes = _shapes_of(message.inputs)
    items = signature.count_items(shapes)
    infos = {info.name: info for info in signature.inputs}
    inputs: Arrays = {}
    at = len(body) if head is None else head
    for each in message.inputs:
        info, shape = infos[each.name], shapes[each.name]
        check_datatype(each.datatype, each.name, info.dtype)
        check_parameters(each.parameters)
        size = each.parameters.get("binary_data_size")
        if size is None:
            inputs[each.name] = yield from _read_data(each, info, shape)
        else:
            inputs[each.name] = _view(body, at, size, each, info, shape)
            at += int(size)
    if at != len(body):
        raise RequestError(
            f"{len(body) - at} bytes are left behind the last tensor: header length and sizes have "
            f"to add up to the body's {len(body)} bytes"
        )
    return InferRequest(inputs, items, _wanted(message, signature), message.parameters, message.id)


def read_raw(body: Body, signature: Signature, names: Sequence[str]) -> InferRequest:
    """The bytes of a model's one input.

    Raises
    ------
    RequestError
        If the model has several, or bytes are missing.
    """
    info = _only_input(signature, "a raw request")
    one = math.prod(info.shape) * numpy_type(info.dtype).itemsize
    several, rest = divmod(len(body), one)
    if rest or not several or (several > 1 and not signature.is_batched):
        more = " or a multiple of it" * signature.is_batched
        raise RequestError(f"the body has {len(body)} bytes; expected {one}{more}")
    shape = (info.shape[0] * several, *info.shape[1:]) if several > 1 else info.shape
    items = signature.count_items({info.name: shape})
    array = _as_array(body, 0, len(body), info, shape)
    return InferRequest({info.name: array}, items, _chosen(names, signature, is_binary=True))


def read_saved(body: Body, signature: Signature, names: Sequence[str]) -> InferRequest:
    """A model's one input as a .npy file.

    Raises
    ------
    RequestError
        If it is none, or of another shape or type.
    """
    info = _only_input(signature, "a .npy file")
    array = read_npy(body)
    if array.dtype != numpy_type(info.dtype):
        raise RequestError(
            f"the .npy file has {array.dtype}; expected {info.dtype}: save x.astype({info.dtype!r})"
        )
    items = signature.count_items({info.name: array.shape})
    return InferRequest({info.name: array}, items, _chosen(names, signature, is_binary=False))


def _only_input(signature: Signature, form: str) -> TensorInfo:
    if len(signature.inputs) != 1:
        raise RequestError(f"the model has {len(signature.inputs)} inputs; {form} has one")
    return signature.inputs[0]


def _shapes_of(inputs: Sequence[InputMessage]) -> dict[str, tuple[int, ...]]:
    shapes = {each.name: tuple(each.shape) for each in inputs}
    if len(shapes) < len(inputs):
        names = [each.name for each in inputs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"input {quote(twice)} is given twice")
    return shapes


def _read_data(
    message: InputMessage, info: TensorInfo, shape: tuple[int, ...]
) -> Generator[None, None, np.ndarray[Any, Any]]:
    text = memoryview(message.data)
    where = f"input {quote(info.name)}"
    if not text:
        raise RequestError(f"{where} has neither data nor binary_data_size")
    if info.dtype in BINARY_ONLY:
        raise RequestError(f"{where}: {message.datatype} goes as bytes alone (binary_data_size)")
    try:
        array = yield from read_numbers(text, shape, numpy_type(info.dtype))
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None
    return array


def _view(
    body: Body,
    at: int,
    size: object,
    message: InputMessage,
    info: TensorInfo,
    shape: tuple[int, ...],
) -> np.ndarray[Any, Any]:
    where = f"input {quote(info.name)}"
    if bytes(message.data):
        raise RequestError(f"{where} has both data and binary_data_size")
    expected = math.prod(shape) * numpy_type(info.dtype).itemsize
    if type(size) is not int or size != expected:
        raise RequestError(
            f"{where}: binary_data_size is {quote(size)}; its shape {list(shape)} and "
            f"{message.datatype} make {expected}"
        )
    if at + size > len(body):
        raise RequestError(
            f"{where}: {len(body) - at} bytes are left of the body; expected {size} (is the header "
            "Inference-Header-Content-Length right?)"
        )
    return _as_array(body, at, size, info, shape)


def _as_array(
    body: Body, at: int, size: int, info: TensorInfo, shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    dtype = numpy_type(info.dtype)
    if info.dtype == "bool" and (np.frombuffer(body, np.uint8, size, at) > 1).any():
        raise RequestError(f"input {quote(info.name)}: a BOOL is a byte of 0 or 1")
    return np.frombuffer(body, dtype, size // dtype.itemsize, at).reshape(shape)


def _wanted(message: InferMessage, signature: Signature) -> tuple[WantedOutput, ...]:
    """The outputs that a message asks for; all, if it names none."""
    is_binary = flag(message.parameters, "binary_data_output")
    if not message.outputs:
        return _chosen((), signature, is_binary)
    forms: dict[str, bool] = {}
    for each in message.outputs:
        check_parameters(each.parameters)
        if each.name in forms:
            raise RequestError(f"output {quote(each.name)} is asked for twice")
        forms[each.name] = flag(each.parameters, "binary_data", is_binary)
    return _checked(forms, signature)


def _chosen(
    names: Sequence[str], signature: Signature, is_binary: bool
) -> tuple[WantedOutput, ...]:
    chosen = names or [info.name for info in signature.outputs]
    return _checked(dict.fromkeys(chosen, is_binary), signature)


def _checked(forms: Mapping[str, bool], signature: Signature) -> tuple[WantedOutput, ...]:
    known = {info.name: info.dtype for info in signature.outputs}
    for name, is_binary in forms.items():
        if name not in known:
            raise RequestError(f"there is no output {quote(name)}; there are: {', '.join(known)}")
        if known[name] in BINARY_ONLY and not is_binary:
            raise RequestError(
                f"output {quote(name)} is of {known[name]}, which goes as bytes alone: ask with "
                '"parameters": {"binary_data": true}'
            )
    return tuple(WantedOutput(name, is_binary) for name, is_binary in forms.items())
