"""``POST /v1/completions``: prompts go on."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.openai.answering import Answering, Prompt
from tvm_hetero.serve.openai.choices import TextPiece
from tvm_hetero.serve.openai.handler import GeneratingHandler, off_loop
from tvm_hetero.serve.openai.logprob_forms import completion_logprobs
from tvm_hetero.serve.openai.prompts import make_prompt, split_prompts
from tvm_hetero.serve.openai.schemas import CompletionFields
from tvm_hetero.serve.openai.settings import read_settings
from tvm_hetero.serve.openai.streams import write_events

_USUAL_TOKENS = 16  # as OpenAI has it


class TextCompletions(GeneratingHandler):
    """Texts of one or several prompts."""

    async def post(self) -> None:
        """Answer at once, or as it comes."""
        fields = self.read(CompletionFields)
        served, model = self.find_decoder(fields.model)
        deadline = self.deadline(fields.timeout)
        settings = read_settings(
            fields, model, self.context.options.limits, logprobs=fields.logprobs,
            max_tokens=_USUAL_TOKENS if fields.max_tokens is None else fields.max_tokens,
            echo=bool(fields.echo),
        )  # fmt: skip
        with self.counted_stream():
            prompts = await self.attend_until(deadline, _read_prompts(model, fields))
            answering = Answering(
                self.context, served, model, prompts, settings, self.arrived, deadline
            )
            form = _CompletionForm(self.new_id("cmpl"), fields, answering)
            if fields.stream:
                await write_events(self, form.events(), deadline)
            else:
                self.answer(await self.attend_until(deadline, form.document()))


async def _read_prompts(model: DecoderModel, fields: CompletionFields) -> list[Prompt]:
    given = split_prompts(fields.prompt, model.length)
    special = fields.add_special_tokens is not False
    letters = sum(len(each) for each in given)
    return await off_loop(
        letters, lambda: [make_prompt(model, each, special=special) for each in given]
    )


class _CompletionForm:
    """An answer, whole or as events."""

    def __init__(self, name: str, fields: CompletionFields, answering: Answering) -> None:
        self._answering = answering
        self._texts = answering.model.texts
        self._choices = len(answering.prompts) * answering.settings.choices
        options = fields.stream_options
        self._tells_usage = bool(options and options.include_usage)
        self._base = {
            "id": name, "object": "text_completion", "created": int(time.time()),
            "model": fields.model,
        }  # fmt: skip

    async def document(self) -> dict[str, Any]:
        wholes = [TextPiece() for _ in range(self._choices)]
        async with aclosing(self._answering.pieces()) as rounds:
            async for pieces in rounds:
                for index, piece in pieces:
                    wholes[index].add(piece)
        choices = [self._choice(index, piece) for index, piece in enumerate(wholes)]
        return {**self._base, "choices": choices, "usage": self._answering.usage.document}

    async def events(self) -> AsyncGenerator[list[Any], None]:
        extra = {"usage": None} if self._tells_usage else {}
        async with aclosing(self._answering.pieces()) as rounds:
            async for pieces in rounds:
                yield [
                    {**self._base, "choices": [self._choice(index, piece)], **extra}
                    for index, piece in pieces
                ]
        if self._tells_usage:
            yield [{**self._base, "choices": [], "usage": self._answering.usage.document}]

    def _choice(self, index: int, piece: TextPiece) -> dict[str, Any]:
        settings = self._answering.settings
        placed = piece.logprobs
        choice = {
            "index": index,
            "text": piece.text,
            "finish_reason": piece.finish,
            "logprobs": (
                None if settings.logprobs is None else completion_logprobs(placed, self._texts)
            ),
        }
        return {**choice, "token_ids": piece.tokens} if settings.token_ids else choice
