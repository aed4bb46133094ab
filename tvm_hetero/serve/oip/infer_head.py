"""What the headers of a query say, before its body comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tvm_hetero.serve.core.query import Priority
from tvm_hetero.serve.core.refusal import AccessError, RequestError
from tvm_hetero.serve.http.door_checks import told_length
from tvm_hetero.serve.models.transport_times import BodyForm, form_of
from tvm_hetero.serve.oip.npy import NPY
from tvm_hetero.serve.oip.parameters import scheduling_by_headers

HEAD_LENGTH = "Inference-Header-Content-Length"
BYTES = "application/octet-stream"
# The last is what curl says if it is told nothing.
_TAKEN = ("", "application/json", BYTES, NPY, "application/x-www-form-urlencoded")


class InferHead(NamedTuple):
    """What the headers of a query say.

    Attributes
    ----------
    type, coding : of the body.
    head : bytes of its JSON, behind which are tensors; None: it is JSON alone.
    timeout, priority : in s, None: no deadline by headers.
    length : bytes of the body; 0: that was not told.
    form : by which what reading and writing takes is predicted.
    asks_npy : whether the answer is to be a .npy file.
    """

    type: str
    coding: str
    head: int | None
    timeout: float | None
    priority: Priority
    length: int
    form: BodyForm
    asks_npy: bool


def read_infer_head(headers: Mapping[str, str]) -> InferHead:
    """What they say.

    Raises
    ------
    AccessError, RequestError
        If they speak of forms that are not spoken here.
    """
    form = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if form not in _TAKEN:
        raise AccessError(f"expected {_TAKEN[1]}, {BYTES} or {NPY}", 415)
    coding = headers.get("Content-Encoding", "identity")
    if coding not in ("identity", "gzip"):
        raise AccessError("bodies are taken as they are, or as gzip", 415)
    head = _head_length(headers.get(HEAD_LENGTH))
    timeout, priority = scheduling_by_headers(headers)
    kind = "json" if head is None and form != NPY else "binary"
    size, told = told_length(headers), headers.get("Content-Length", "")
    return InferHead(form, coding, head, timeout, priority, size, form_of(kind, told),
                     NPY in headers.get("Accept", ""))  # fmt: skip


def _head_length(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 12:
        raise RequestError(f"{HEAD_LENGTH}: expected a number of bytes")
    return int(text)
