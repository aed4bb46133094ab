"""What the routes of OpenAI's API have in common: bodies, deadlines, errors in its form."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import msgspec
from tornado.web import HTTPError

from tvm_hetero.serve.core.deadline import end_at, timeout_by_header
from tvm_hetero.serve.core.refusal import STREAMS, RefusedError
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.http.door_checks import told_length, too_large
from tvm_hetero.serve.http.errors import Fault, describe_fault
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.models.statistics import EndedGeneration
from tvm_hetero.serve.openai.errors import InvalidRequestError, error_body, is_worth_retrying
from tvm_hetero.serve.openai.fields import read_fields

T = TypeVar("T")
F = TypeVar("F", bound=msgspec.Struct)

_LONGEST = 1e6  # seconds of a timeout
_LARGEST = 4 << 20  # bytes of a body: JSON of that size holds the loop for some ten milliseconds
_LONG = 4096  # letters: what is longer is not tokenised in the loop's thread


class OpenAiHandler(ApiHandler):
    """Base of the routes under ``/v1``."""

    answers_while_draining: ClassVar[bool] = False

    def check_door(self) -> None:
        """A body of texts is small; one without an announced length is cut off there, too."""
        size = told_length(self.request.headers)
        if size > _LARGEST:
            raise too_large(f"{size} bytes, more", _LARGEST)
        connection: Any = self.request.connection
        connection.set_max_body_size(min(_LARGEST, self.context.options.limits.body))

    def read(self, kind: type[F]) -> F:
        """The body as fields (`serve.openai.fields.read_fields`)."""
        return read_fields(self.body, kind)

    def find_decoder(self, name: str) -> tuple[ServedModel, DecoderModel]:
        """The decoder of a name.

        Raises
        ------
        UnknownModelError, RefusedError
            As in `Repository.find`; the model is not closed before this request is answered.
        InvalidRequestError
            If the model is no decoder.
        """
        served = self.find_model(name)
        if served.decoder is None:
            raise InvalidRequestError(
                f"the model {name!r} generates no text; it maps tensors to tensors "
                f"(/v2/models/{name}/infer)", "model", "model_not_supported",
            )  # fmt: skip
        return served, served.decoder

    def deadline(self, timeout: float | None) -> float | None:
        """When the answer is due, by `time.monotonic`: what is sooner of header and body.

        Raises
        ------
        RequestError, InvalidRequestError
            If the header is no number of microseconds, or the body's none of seconds above 0.
        """
        if timeout is not None and not 0 < timeout < _LONGEST:
            raise InvalidRequestError("timeout: expected seconds, more than 0", "timeout")
        given = [each for each in (timeout, timeout_by_header(self.request.headers)) if each]
        return self.arrived + min(given) if given else None

    async def attend_until(self, deadline: float | None, work: Awaitable[T]) -> T:
        """Await something that ends when the client hangs up, or at the deadline.

        Raises
        ------
        DeadlineError
            If it was not done by then.
        """
        try:
            return await self.attend(_until(deadline, self.arrived, work))
        finally:
            if asyncio.iscoroutine(work):
                work.close()  # which has not begun where the client was gone before

    @property
    def given_up(self) -> BaseException | None:
        """Why the server has ended what it did for this client."""
        return self._given_up

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for an exception."""
        self._error: BaseException | None = kwargs.get("exc_info", (None, None, None))[1]
        if self._error is not None:
            retry = is_worth_retrying(describe_fault(self._error))
            if retry is not None:
                self.set_header("x-should-retry", "true" if retry else "false")
        super().write_error(status_code, **kwargs)

    def fault_body(self, fault: Fault) -> Any:
        """In OpenAI's form."""
        return error_body(fault, self._error)

    def new_id(self, kind: str) -> str:
        """A name for an answer, which its headers say, too."""
        name = f"{kind}-{secrets.token_hex(12)}"
        self.set_header("x-request-id", name)
        return name

    @contextmanager
    def counted_stream(self) -> Iterator[None]:
        """One of the answers that this client may be given at once.

        Raises
        ------
        RefusedError
            If it has too many.
        """
        streams: Counter[str] = self.context.parts.setdefault("openai.streams", Counter())
        client, limit = self.request.remote_ip or "", self.context.options.limits.streams
        if streams[client] >= limit:
            raise RefusedError(
                f"{limit} answers are under way to this client already, the most that may",
                reason=STREAMS, status=429, retry_after=1.0,
            )  # fmt: skip
        streams[client] += 1
        try:
            yield
        finally:
            streams[client] -= 1
            if not streams[client]:
                del streams[client]


class GeneratingHandler(OpenAiHandler):
    """Base of the routes that generate."""

    def check_door(self) -> None:
        """Where no decoder would take another text, a body need not be read to be refused."""
        super().check_door()
        served = [standing.model for _, standing in self.context.repository]
        decoders = [each.decoder for each in served if each is not None and each.decoder]
        most = self.context.options.limits.queue
        if not decoders or any(decoder.waiting < most for decoder in decoders):
            return
        try:
            decoders[0].check_room(1, most)
        except RefusedError as error:
            tell_refused(self.context, decoders[0], self.arrived, error)
            raise


def tell_refused(
    context: ServeContext, model: DecoderModel, arrived: float, error: RefusedError
) -> None:
    """Tell observers that a decoder did not take a request."""
    whole = time.monotonic() - arrived
    ended = EndedGeneration(
        model.name, model.version, 0, 0, 0, 0.0, 0.0, whole, f"refused: {error.reason}"
    )
    for observer in context.generation_observers:
        observer.generation_ended(ended)


class UnknownPath(OpenAiHandler):
    """Answers all else under ``/v1``."""

    def check_door(self) -> None:
        """Nothing is here."""
        raise HTTPError(404)


async def off_loop(letters: int, work: Callable[[], T]) -> T:
    """Do something with so many letters: here, or in a thread where that takes long."""
    if letters < _LONG:
        return work()
    return await asyncio.get_running_loop().run_in_executor(None, work)


async def _until(deadline: float | None, arrived: float, work: Awaitable[T]) -> T:
    async with end_at(deadline, arrived):
        return await work
