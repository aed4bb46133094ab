"""``POST /v2/models/NAME[/versions/V]/infer``."""

from __future__ import annotations

import asyncio
import math
import time
import zlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from tvm_hetero.executor.tensors import ALIGNMENT
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.core.refusal import (
    DEADLINE,
    TOO_LARGE,
    AccessError,
    RefusedError,
    RequestError,
)
from tvm_hetero.serve.http.door_checks import told_length
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.models.tensor_model import Signature, TensorModel
from tvm_hetero.serve.models.transport_times import BodyForm, TransportTimes, form_of
from tvm_hetero.serve.oip.answers import write_answer
from tvm_hetero.serve.oip.npy import NPY, write_npy
from tvm_hetero.serve.oip.numbers import take_turns
from tvm_hetero.serve.oip.parameters import scheduling_by_headers, scheduling_by_parameters
from tvm_hetero.serve.oip.requests import Body, InferRequest, read_json, read_raw, read_saved

HEAD_LENGTH = "Inference-Header-Content-Length"
_BYTES = "application/octet-stream"
# The last is what curl says if it is told nothing.
_TAKEN = ("", "application/json", _BYTES, NPY, "application/x-www-form-urlencoded")

_LARGE = 32 << 10  # bytes that are worth being aligned
_UNPACKED = 256 << 10  # bytes that are copied in a fraction of a millisecond

T = TypeVar("T")


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


class Infer(ApiHandler):
    """A query, from its door to its answer."""

    answers_while_draining: ClassVar[bool] = False
    has_lane: ClassVar[bool] = True
    facts: InferHead

    def read_head(self) -> InferHead:
        """Refuse forms that are not spoken here."""
        headers = self.request.headers
        form = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if form not in _TAKEN:
            raise AccessError(f"expected {_TAKEN[1]}, {_BYTES} or {NPY}", 415)
        coding = headers.get("Content-Encoding", "identity")
        if coding not in ("identity", "gzip"):
            raise AccessError("bodies are taken as they are, or as gzip", 415)
        head = _head_length(headers.get(HEAD_LENGTH))
        timeout, priority = scheduling_by_headers(headers)
        kind = "json" if head is None and form != NPY else "binary"
        size, told = told_length(headers), headers.get("Content-Length", "")
        return InferHead(form, coding, head, timeout, priority, size, form_of(kind, told),
                         NPY in headers.get("Accept", ""))  # fmt: skip

    def check_door(self) -> None:
        """Refuse unknown models, and what comes too late."""
        facts = self.facts
        model = self.context.repository.find(**self.path_kwargs)
        self._deadline = None if facts.timeout is None else self.arrived + facts.timeout
        due = self._due(self._deadline, model)
        latest = None
        phases = model.statistics.reading, model.statistics.writing
        if due < math.inf:
            latest = due - sum(phase.typical(facts.form) for phase in phases)
        try:
            self.context.dispatcher.check_door(_tensors_of(model), latest, facts.priority)
        except RefusedError as error:
            self._doubt(error, phases, due - time.monotonic())
            raise
        self._reserve(facts)

    def data_received(self, chunk: bytes) -> None:
        """Copy what came to where the first tensor is aligned, and can be used without a copy."""
        if self._room is None:
            if not self.body:
                self.body = chunk  # most come in one piece, which is used where it is
            else:
                self.body = bytearray(self.body) if isinstance(self.body, bytes) else self.body
                self.body += chunk
            return
        self._room[self._filled : self._filled + len(chunk)] = chunk
        self._filled += len(chunk)

    async def post(self, name: str, version: str | None = None) -> None:
        """Read, compute, answer."""
        body = await self._whole_body()
        model, request = await self._read(body, name, version)
        tensors = _tensors_of(model)
        deadline, priority = self._deadline, self.facts.priority
        if request.parameters:
            deadline, priority = scheduling_by_parameters(
                request.parameters, self.arrived, (deadline, priority)
            )
        query = InferenceQuery(
            request.inputs, request.items, deadline, priority=priority, arrived=self.arrived,
            writing=model.statistics.writing.typical(self.facts.form),
        )  # fmt: skip
        work = self.context.dispatcher.compute(tensors, model.statistics, query, model.slo)
        allowed = self._due(deadline, model) - self.arrived
        try:
            answer = await self.attend(work)
        except RefusedError as error:
            self._doubt(error, [model.statistics.writing], allowed)
            raise
        begun = time.monotonic()
        await self._write(model, request, answer)
        took = time.monotonic() - begun
        model.statistics.encode.add(took)
        model.statistics.writing.add(self.facts.form, took)

    def _due(self, deadline: float | None, model: ServedModel) -> float:
        """When the answer has to be, or should be, there; infinite: whenever."""
        slo = math.inf if model.slo is None else model.slo
        return min(math.inf if deadline is None else deadline, self.arrived + slo)

    def _doubt(self, error: RefusedError, phases: Sequence[TransportTimes], allowed: float) -> None:
        """What was predicted for reading and writing may have been too much, if that refuses.

        What would be too late without them, too (by so many seconds that are `allowed`), says
        nothing of them: under overload most queries are, and their medians would be forgotten.
        """
        if error.reason == DEADLINE and error.takes is not None and error.takes <= allowed:
            for phase in phases:
                phase.doubt(self.facts.form)

    async def _read(
        self, body: Body, name: str, version: str | None
    ) -> tuple[ServedModel, InferRequest]:
        """The request, and the model that takes queries after it was read."""
        model = self.find_model(name, version)
        while True:
            begun = time.monotonic()
            request = await self._steps(self._request(body, _tensors_of(model).signature))
            took = time.monotonic() - begun
            model.statistics.decode.add(took)
            model.statistics.reading.add(self.facts.form, took)
            now = self.find_model(name, version)
            if now is model:
                return model, request
            model = now  # another version came meanwhile: is it a request for that one, too?

    def _request(self, body: Body, signature: Signature) -> Generator[None, None, InferRequest]:
        head = self.facts.head
        if self.facts.type == NPY:
            return read_saved(body, signature, self.get_query_arguments("output"))
        if head == 0:
            return read_raw(body, signature, self.get_query_arguments("output"))
        return (yield from read_json(body, head, signature))

    async def _write(
        self, model: ServedModel, request: InferRequest, answer: InferenceAnswer
    ) -> None:
        if self.facts.asks_npy:
            if len(request.outputs) != 1:
                names = " or ".join(f"?output={each.name}" for each in request.outputs)
                raise AccessError(f"a .npy file has one array; choose one: {names}", 406)
            self.send([write_npy(answer.outputs[request.outputs[0].name])], NPY)
            return
        written = await self._steps(write_answer((model.name, model.version), request, answer))
        if written.tensors is None:
            self.send([written.head], "application/json")
        else:
            told = {HEAD_LENGTH: str(len(written.head))}
            self.send([written.head, *written.tensors], _BYTES, told)

    async def _steps(self, steps: Generator[None, None, T]) -> T:
        """Take steps; those who hang up take no more. Most requests take one, at once."""
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        return await self.attend(take_turns(steps))

    def _reserve(self, facts: InferHead) -> None:
        """Memory for a body whose length is told, in which the first tensor is aligned."""
        self._room: memoryview | None = None
        self._filled = 0
        if facts.head is None or facts.length <= _LARGE or facts.coding != "identity":
            return
        room = np.empty(facts.length + ALIGNMENT, np.uint8)
        begin = -(room.ctypes.data + facts.head) % ALIGNMENT
        self._room = room.data[begin : begin + facts.length]

    async def _whole_body(self) -> Body:
        body: Body = self.body if self._room is None else self._room
        if self.facts.coding == "gzip":
            limit = self.context.options.limits.body
            body = await asyncio.to_thread(_decompressed, bytes(body), limit)
        head = self.facts.head
        if head is not None and head > len(body):
            raise RequestError(f"{HEAD_LENGTH} is {head}; the body has {len(body)} bytes")
        return body


def _tensors_of(model: ServedModel) -> TensorModel:
    if model.tensors is None:
        raise RequestError(f"{model.name!r} is a decoder of texts: ask for them at /v1/completions")
    return model.tensors


def _head_length(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 12:
        raise RequestError(f"{HEAD_LENGTH}: expected a number of bytes")
    return int(text)


def _decompressed(body: bytes, limit: int) -> bytearray:
    """A gzip body; no more than the limit is ever there.

    In pieces: all of it at once would be copied while no other thread may run Python.
    """
    stream, whole = zlib.decompressobj(16 + zlib.MAX_WBITS), bytearray()
    rest = memoryview(body)
    while rest and not stream.eof:
        piece, rest = bytes(rest[:_UNPACKED]), rest[_UNPACKED:]
        for more in _unpacked(stream, piece):
            whole += more
            if len(whole) > limit:
                raise RefusedError(
                    f"the body has more than {limit} bytes when it is decompressed",
                    reason=TOO_LARGE, status=413,
                )  # fmt: skip
    if not stream.eof or stream.unused_data or rest:
        raise RequestError("the body's gzip ends before its end, or after it")
    return whole


def _unpacked(stream: Any, piece: bytes) -> Iterator[bytes]:
    """What a piece of a gzip stream adds, a piece at a time."""
    is_full = True
    while (piece or is_full) and not stream.eof:
        try:
            more: bytes = stream.decompress(piece, _UNPACKED)
        except zlib.error:
            raise RequestError("the body is no gzip") from None
        piece, is_full = stream.unconsumed_tail, len(more) == _UNPACKED
        yield more
