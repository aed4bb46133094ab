"""What is asked: whole requests, made once of what a model says of its inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.core.deadline import TIMEOUT_HEADER
from tvm_hetero.util.quote import quote

# Types of the protocol whose values can be made up.
_TYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16",
    "FP32": "float32", "FP64": "float64",
}  # fmt: skip
_JSON_CANNOT = ("FP16",)
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class RequestHead:
    """What every request of a load test says.

    Attributes
    ----------
    authority : host and port, for the header ``Host``.
    key : the server's, if it has one.
    timeouts : seconds by model after which an answer is useless, told to the server.
    """

    authority: str
    key: str | None
    timeouts: Mapping[str, float]


def get_request(head: RequestHead, path: str) -> bytes:
    """A request of what a server tells."""
    return _head(head, "GET", path, {}).encode("latin-1")


def infer_request(
    head: RequestHead, metadata: Mapping[str, Any], *, binary: bool, items: int = 1, seed: int = 0
) -> bytes:
    """A request for a model's outputs, of random inputs.

    Parameters
    ----------
    metadata : as the server tells of the model.
    items : how long an axis is whose length is open.

    Raises
    ------
    UsageError
        If inputs of its kind cannot be made up, or not sent in that form.
    """
    name = str(metadata["name"])
    if not metadata["inputs"]:
        raise UsageError(f"{quote(name)} has no tensors as inputs: it is a decoder of texts, which "
                         "a load test does not ask")  # fmt: skip
    drawn = np.random.default_rng(seed)
    arrays = {each["name"]: _values(each, items, drawn) for each in metadata["inputs"]}
    kinds = {each["name"]: each["datatype"] for each in metadata["inputs"]}
    inputs: list[dict[str, Any]] = []
    for tensor, array in arrays.items():
        row: dict[str, Any] = {
            "name": tensor, "shape": list(array.shape), "datatype": kinds[tensor]
        }  # fmt: skip
        if binary:
            row["parameters"] = {"binary_data_size": array.nbytes}
        elif kinds[tensor] in _JSON_CANNOT:
            raise UsageError(f"input {quote(tensor)} is {kinds[tensor]}, which JSON cannot say: "
                             "use --binary")  # fmt: skip
        else:
            row["data"] = array.ravel().tolist()
        inputs.append(row)
    document: dict[str, Any] = {"inputs": inputs}
    headers = {"Content-Type": "application/json"}
    if binary:
        document["parameters"] = {"binary_data_output": True}
    body = json.dumps(document).encode()
    if binary:
        headers = {"Content-Type": "application/octet-stream",
                   "Inference-Header-Content-Length": str(len(body))}  # fmt: skip
        body = b"".join([body, *(array.tobytes() for array in arrays.values())])
    if name in head.timeouts:
        headers[TIMEOUT_HEADER] = str(round(head.timeouts[name] * 1e6))
    headers["Content-Length"] = str(len(body))
    return _head(head, "POST", f"/v2/models/{name}/infer", headers).encode("latin-1") + body


def _head(head: RequestHead, method: str, path: str, headers: Mapping[str, str]) -> str:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {head.authority}"]
    if head.key is not None:
        lines.append(f"Authorization: Bearer {head.key}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""])


def _values(
    tensor: Mapping[str, Any], items: int, drawn: np.random.Generator
) -> np.ndarray[Any, Any]:
    kind = _TYPES.get(tensor["datatype"])
    shape = [items if axis == -1 else axis for axis in tensor["shape"]]
    if kind is None:
        raise UsageError(f"input {quote(tensor['name'])} is {quote(tensor['datatype'])}; a load "
                         f"test makes up {', '.join(_TYPES)}")  # fmt: skip
    if any(type(axis) is not int or axis < 0 for axis in shape) or (
        float(np.prod([float(axis) for axis in shape])) * 8 > _MOST_BYTES
    ):
        raise UsageError(f"input {quote(tensor['name'])} has shape {quote(shape)}; expected at "
                         f"most {_MOST_BYTES} bytes")  # fmt: skip
    if kind.startswith("float"):
        return drawn.random(shape).astype(kind)
    return drawn.integers(0, 2, shape).astype(kind)  # an index into whatever table
