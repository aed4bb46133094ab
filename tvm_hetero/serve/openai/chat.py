"""``POST /v1/chat/completions``: a chat goes on."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.openai.answering import Answering, Prompt
from tvm_hetero.serve.openai.choices import TextPiece
from tvm_hetero.serve.openai.errors import InvalidRequestError
from tvm_hetero.serve.openai.handler import GeneratingHandler, off_loop
from tvm_hetero.serve.openai.logprob_forms import chat_logprobs
from tvm_hetero.serve.openai.prompts import make_chat_prompt
from tvm_hetero.serve.openai.schemas import ChatFields
from tvm_hetero.serve.openai.settings import read_settings
from tvm_hetero.serve.openai.streams import write_events


class ChatCompletions(GeneratingHandler):
    """What the model says next."""

    async def post(self) -> None:
        """Answer at once, or as it comes."""
        fields = self.read(ChatFields)
        served, model = self.find_decoder(fields.model)
        deadline = self.deadline(fields.timeout)
        most = fields.max_completion_tokens
        settings = read_settings(
            fields, model, self.context.options.limits, logprobs=_count_logprobs(fields),
            max_tokens=fields.max_tokens if most is None else most,
        )  # fmt: skip
        with self.counted_stream():
            prompt = await self.attend_until(deadline, self._read_prompt(model, fields))
            answering = Answering(
                self.context, served, model, [prompt], settings, self.arrived, deadline
            )
            form = _ChatForm(self.new_id("chatcmpl"), fields, answering)
            if fields.stream:
                await write_events(self, form.events(), deadline)
            else:
                self.answer(await self.attend_until(deadline, form.document()))

    async def _read_prompt(self, model: DecoderModel, fields: ChatFields) -> Prompt:
        return await off_loop(len(self.body), lambda: make_chat_prompt(model, fields.messages))


def _count_logprobs(fields: ChatFields) -> int | None:
    if fields.top_logprobs is not None and not fields.logprobs:
        raise InvalidRequestError("top_logprobs: only with logprobs: true", "top_logprobs")
    return (fields.top_logprobs or 0) if fields.logprobs else None


class _ChatForm:
    """An answer, whole or as events."""

    def __init__(self, name: str, fields: ChatFields, answering: Answering) -> None:
        self._answering = answering
        self._texts = answering.model.texts
        options = fields.stream_options
        self._tells_usage = bool(options and options.include_usage)
        self._base: dict[str, Any] = {
            "id": name, "created": int(time.time()), "model": fields.model,
        }  # fmt: skip
        if fields.service_tier is not None:
            is_high = fields.service_tier == "priority"
            self._base["service_tier"] = "priority" if is_high else "default"
        self._has_role: set[int] = set()

    async def document(self) -> dict[str, Any]:
        wholes = [TextPiece() for _ in range(self._answering.settings.choices)]
        async with aclosing(self._answering.pieces()) as rounds:
            async for pieces in rounds:
                for index, piece in pieces:
                    wholes[index].add(piece)
        return {
            **self._base,
            "object": "chat.completion",
            "choices": [
                self._choice(
                    index, piece, piece.finish,
                    message={"role": "assistant", "content": piece.text, "refusal": None},
                )
                for index, piece in enumerate(wholes)
            ],
            "usage": self._answering.usage.document,
        }  # fmt: skip

    async def events(self) -> AsyncGenerator[list[Any], None]:
        base = {**self._base, "object": "chat.completion.chunk"}
        extra = {"usage": None} if self._tells_usage else {}
        async with aclosing(self._answering.pieces()) as rounds:
            async for pieces in rounds:
                yield [
                    {**base, "choices": [choice], **extra}
                    for index, piece in pieces
                    for choice in self._deltas(index, piece)
                ]
        if self._tells_usage:
            yield [{**base, "choices": [], "usage": self._answering.usage.document}]

    def _deltas(self, index: int, piece: TextPiece) -> list[dict[str, Any]]:
        """Who speaks, what, and that it was all: one or the other may not be there."""
        found = []
        if index not in self._has_role:
            self._has_role.add(index)
            delta = {"role": "assistant", "content": "", "refusal": None}
            found.append(self._choice(index, TextPiece(), None, delta=delta))
        if piece.text or piece.logprobs or piece.tokens:
            found.append(self._choice(index, piece, None, delta={"content": piece.text}))
        if piece.finish is not None:
            found.append(self._choice(index, TextPiece(), piece.finish, delta={}))
        return found

    def _choice(
        self, index: int, piece: TextPiece, finish: str | None, **said: dict[str, Any]
    ) -> dict[str, Any]:
        settings = self._answering.settings
        has_logprobs = settings.logprobs is not None and ("message" in said or piece.logprobs)
        choice = {
            "index": index, **said,
            "logprobs": chat_logprobs(piece.logprobs, self._texts) if has_logprobs else None,
            "finish_reason": finish,
        }  # fmt: skip
        return {**choice, "token_ids": piece.tokens} if settings.token_ids else choice
