"""Requests of the protocol, written by hand: a client that can say what is wrong, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np

from tests.serve.oip.conftest import KINDS
from tests.serve.server_process import Reply, ServerProcess

LENGTH = "Inference-Header-Content-Length"
_NAMES = {dtype: name for name, dtype in KINDS.items()}
Arrays = Mapping[str, np.ndarray[Any, Any]]


def described(name: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An input without its numbers."""
    return {"name": name, "shape": list(array.shape), "datatype": _NAMES[array.dtype.name]}


def as_json(inputs: Arrays, **more: Any) -> dict[str, Any]:
    """A request in JSON."""
    told = [{**described(name, each), "data": each.tolist()} for name, each in inputs.items()]
    return {"inputs": told, **more}


def as_bytes(inputs: Arrays, **more: Any) -> tuple[bytes, dict[str, str]]:
    """A request with binary tensors: its body and headers."""
    told = [
        {**described(name, each), "parameters": {"binary_data_size": each.nbytes}}
        for name, each in inputs.items()
    ]
    head = json.dumps({"inputs": told, **more}).encode()
    body = head + b"".join(each.tobytes() for each in inputs.values())
    return body, {LENGTH: str(len(head)), "Content-Type": "application/octet-stream"}


def as_npy(array: np.ndarray[Any, Any]) -> bytes:
    """A .npy file."""
    stream = BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def outputs_of(reply: Reply) -> dict[str, np.ndarray[Any, Any]]:
    """Outputs of an answer, in JSON or with tensors behind it."""
    import ml_dtypes

    assert reply.status == 200, reply.body
    at = int(reply.headers.get(LENGTH, len(reply.body)))
    found = {}
    for each in json.loads(reply.body[:at])["outputs"]:
        dtype = np.dtype(
            getattr(ml_dtypes, KINDS[each["datatype"]], None) or KINDS[each["datatype"]]
        )
        size = each.get("parameters", {}).get("binary_data_size")
        if size is None:
            array = np.array(each["data"], dtype)
        else:
            array = np.frombuffer(reply.body, dtype, size // dtype.itemsize, at)
            at += size
        found[each["name"]] = array.reshape(each["shape"])
    assert at == len(reply.body)
    return found


def infer(server: ServerProcess, model: str, body: Any, headers: Any = None) -> Reply:
    """The answer to an inference request."""
    return server.post(f"/v2/models/{model}/infer", body, headers)
