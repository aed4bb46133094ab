"""``POST /v2/models/NAME[/versions/V]/infer``."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from tvm_hetero.executor.tensors import ALIGNMENT
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery
from tvm_hetero.serve.core.refusal import DEADLINE, AccessError, RefusedError, RequestError
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.models.tensor_model import TensorModel
from tvm_hetero.serve.models.transport_times import TransportTimes
from tvm_hetero.serve.oip.answers import WrittenAnswer, write_answer
from tvm_hetero.serve.oip.gzip_body import decompress
from tvm_hetero.serve.oip.infer_head import BYTES, HEAD_LENGTH, InferHead, read_infer_head
from tvm_hetero.serve.oip.npy import NPY, write_npy
from tvm_hetero.serve.oip.numbers import take_turns
from tvm_hetero.serve.oip.parameters import scheduling_by_parameters
from tvm_hetero.serve.oip.requests import Body, InferRequest, read_json, read_raw, read_saved

_LARGE = 32 << 10  # bytes that are worth being aligned

T = TypeVar("T")


class Infer(ApiHandler):
    """A query, from its door to its answer."""

    answers_while_draining: ClassVar[bool] = False
    has_lane: ClassVar[bool] = True
    facts: InferHead

    def read_head(self) -> InferHead:
        """Refuse forms that are not spoken here."""
        return read_infer_head(self.request.headers)

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

    def space(self, done: int, length: int) -> memoryview:
        """The same, of what comes in a large body."""
        return super().space(done, length) if self._room is None else self._room[done:]

    def post(self, name: str, version: str | None = None) -> Coroutine[Any, Any, None] | None:
        """Read, compute, answer; what is left to be awaited, if anything is.

        Of small queries of tiny models nothing is: a task costs about as much as all else of them.
        """
        if not 0 < self.facts.length <= _LARGE or self.facts.coding != "identity":
            return self._answer(name, version)
        body, model = self._checked(self.body), self.find_model(name, version)
        begun = time.monotonic()
        request = _at_once(self._request(body, model))
        if request is None:
            return self._answer(name, version)
        self._note_read(model, begun)
        query = self._query(model, request)
        tensors, dispatcher = _tensors_of(model), self.context.dispatcher
        try:
            answer = dispatcher.compute_at_once(tensors, model.statistics, query, model.slo)
        except RefusedError as error:
            self._doubt_writing(error, model, query)
            raise
        if answer is None:
            return self._compute(model, request, query)
        return self._write(model, request, answer)

    async def _answer(self, name: str, version: str | None) -> None:
        """All of it, for bodies of any size."""
        body = await self._whole_body()
        model, request = await self._read(body, name, version)
        await self._compute(model, request, self._query(model, request))

    def _query(self, model: ServedModel, request: InferRequest) -> InferenceQuery:
        deadline, priority = self._deadline, self.facts.priority
        if request.parameters:
            deadline, priority = scheduling_by_parameters(
                request.parameters, self.arrived, (deadline, priority)
            )
        return InferenceQuery(
            request.inputs, request.items, deadline, priority=priority, arrived=self.arrived,
            writing=model.statistics.writing.typical(self.facts.form),
        )  # fmt: skip

    async def _compute(
        self, model: ServedModel, request: InferRequest, query: InferenceQuery
    ) -> None:
        """Wait for the outputs, and answer."""
        dispatcher, tensors = self.context.dispatcher, _tensors_of(model)
        try:
            answer = await self.attend(
                dispatcher.compute(tensors, model.statistics, query, model.slo)
            )
        except RefusedError as error:
            self._doubt_writing(error, model, query)
            raise
        rest = self._write(model, request, answer)
        if rest is not None:
            await rest

    def _doubt_writing(
        self, error: RefusedError, model: ServedModel, query: InferenceQuery
    ) -> None:
        allowed = self._due(query.deadline, model) - self.arrived
        self._doubt(error, [model.statistics.writing], allowed)

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
            request = await self._steps(self._request(body, model))
            self._note_read(model, begun)
            now = self.find_model(name, version)
            if now is model:
                return model, request
            model = now  # another version came meanwhile: is it a request for that one, too?

    def _note_read(self, model: ServedModel, begun: float) -> None:
        took = time.monotonic() - begun
        model.statistics.decode.add(took)
        model.statistics.reading.add(self.facts.form, took)

    def _request(self, body: Body, model: ServedModel) -> Generator[None, None, InferRequest]:
        head, signature = self.facts.head, _tensors_of(model).signature
        if self.facts.type == NPY:
            return read_saved(body, signature, self.get_query_arguments("output"))
        if head == 0:
            return read_raw(body, signature, self.get_query_arguments("output"))
        return (yield from read_json(body, head, signature))

    def _write(
        self, model: ServedModel, request: InferRequest, answer: InferenceAnswer
    ) -> Coroutine[Any, Any, None] | None:
        """Answer; what is left to be awaited, if the answer is large."""
        begun = time.monotonic()
        if self.facts.asks_npy:
            self._send_saved(request, answer)
        else:
            steps = write_answer((model.name, model.version), request, answer)
            written = _at_once(steps)
            if written is None:
                return self._write_on(model, steps, begun)
            self._send_written(written)
        self._note_written(model, begun)
        return None

    async def _write_on(
        self, model: ServedModel, steps: Generator[None, None, WrittenAnswer], begun: float
    ) -> None:
        self._send_written(await self.attend(take_turns(steps)))
        self._note_written(model, begun)

    def _note_written(self, model: ServedModel, begun: float) -> None:
        took = time.monotonic() - begun
        model.statistics.encode.add(took)
        model.statistics.writing.add(self.facts.form, took)

    def _send_saved(self, request: InferRequest, answer: InferenceAnswer) -> None:
        if len(request.outputs) != 1:
            names = " or ".join(f"?output={each.name}" for each in request.outputs)
            raise AccessError(f"a .npy file has one array; choose one: {names}", 406)
        self.send([write_npy(answer.outputs[request.outputs[0].name])], NPY)

    def _send_written(self, written: WrittenAnswer) -> None:
        if written.tensors is None:
            self.send([written.head], "application/json")
        else:
            told = {HEAD_LENGTH: str(len(written.head))}
            self.send([written.head, *written.tensors], BYTES, told)

    async def _steps(self, steps: Generator[None, None, T]) -> T:
        """Take steps; those who hang up take no more. Most requests take one, at once."""
        result = _at_once(steps)
        return await self.attend(take_turns(steps)) if result is None else result

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
            body = await asyncio.to_thread(decompress, bytes(body), limit)
        return self._checked(body)

    def _checked(self, body: Body) -> Body:
        head = self.facts.head
        if head is not None and head > len(body):
            raise RequestError(f"{HEAD_LENGTH} is {head}; the body has {len(body)} bytes")
        return body


def _tensors_of(model: ServedModel) -> TensorModel:
    if model.tensors is None:
        raise RequestError(f"{model.name!r} is a decoder of texts: ask for them at /v1/completions")
    return model.tensors


def _at_once(steps: Generator[None, None, T]) -> T | None:
    """What steps return, if they need no second one."""
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    return None
