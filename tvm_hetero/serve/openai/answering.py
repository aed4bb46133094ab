"""The texts of one request: all their sequences, from the door to the last piece.

There is one reader of `pieces`; when it stops reading, what has not ended leaves its slot. Each
text is counted once, however it ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.errors import DeadlineError
from tvm_hetero.generation.logprobs import TokenLogprobs
from tvm_hetero.generation.sequences import Entered, Happening, ScoredPrompt
from tvm_hetero.serve.core.refusal import RefusedError
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.models.decoder_model import DecoderModel, RunningSequences
from tvm_hetero.serve.models.served_model import ServedModel
from tvm_hetero.serve.models.statistics import EndedGeneration, EndedQuery
from tvm_hetero.serve.openai.choices import ChoiceText, PlacedToken, TextPiece
from tvm_hetero.serve.openai.handler import tell_refused
from tvm_hetero.serve.openai.settings import TextSettings
from tvm_hetero.serve.text.detokenizer import Detokenizer


@dataclass(frozen=True)
class Prompt:
    """A prompt: its tokens, and the text by which it is echoed."""

    tokens: tuple[int, ...]
    text: str


@dataclass(eq=False)
class _TextCourse:
    """How a sequence has fared: times by `time.monotonic`, 0 before they are there."""

    text: ChoiceText
    prompt: Prompt
    cached: int = 0
    entered: float = 0.0
    first: float = 0.0
    latest: float = 0.0
    finish: str = ""
    scores: Sequence[TokenLogprobs] = ()


@dataclass(frozen=True)
class TokenUsage:
    """Tokens that were read and written."""

    prompt: int
    completion: int
    cached: int

    @property
    def document(self) -> dict[str, Any]:
        """As the protocol writes it."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


@dataclass(eq=False)
class Answering:
    """A request that is being answered.

    Attributes
    ----------
    served, model : who answers.
    prompts, settings : what is asked; choice c of prompt p has index p * choices + c.
    arrived, deadline : by `time.monotonic`.
    """

    context: ServeContext
    served: ServedModel
    model: DecoderModel
    prompts: Sequence[Prompt]
    settings: TextSettings
    arrived: float
    deadline: float | None
    _courses: list[_TextCourse] = field(default_factory=list)

    async def pieces(self) -> AsyncGenerator[list[tuple[int, TextPiece]], None]:
        """What may be told, by choices' indices, as it comes; each choice's last one has a finish.

        Raises
        ------
        RefusedError
            If it is not taken.
        RunError
            If a sequence fails.
        """
        try:
            running = self._submit()
        except RefusedError as error:
            tell_refused(self.context, self.model, self.arrived, error)
            raise
        outcome = "failed"
        self.served.statistics.begin()
        try:
            while not all(course.text.is_over for course in self._courses):
                told = self._take(running, await running.read())
                if told:
                    yield told
            outcome = "success"
        except (asyncio.CancelledError, GeneratorExit):
            outcome = "cancelled" if not self._is_late else "deadline"
            raise
        except DeadlineError:
            outcome = "deadline"
            raise
        finally:
            running.close()
            self._count(outcome)

    @property
    def usage(self) -> TokenUsage:
        """What it took so far; of a prompt's choices the first says what was there already."""
        firsts = self._courses[:: self.settings.choices]
        return TokenUsage(
            sum(len(prompt.tokens) for prompt in self.prompts),
            sum(self._new_tokens(course) for course in self._courses),
            sum(course.cached for course in firsts),
        )

    @property
    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _submit(self) -> RunningSequences:
        requests = [
            request
            for prompt in self.prompts
            for request in self.settings.requests(prompt.tokens, self.model.length)
        ]
        running = self.model.submit(
            requests, self.context.options.limits.queue, self.deadline
        )  # fmt: skip
        for prompt in self.prompts:
            begins_at = len(prompt.text) if self.settings.echo else 0
            self._courses += [
                _TextCourse(ChoiceText(self.settings, self.model.texts, begins_at), prompt)
                for _ in range(self.settings.choices)
            ]
        return running

    def _take(
        self, running: RunningSequences, happened: Sequence[tuple[int, Happening]]
    ) -> list[tuple[int, TextPiece]]:
        told: dict[int, TextPiece] = {}
        for index, happening in happened:
            course = self._courses[index]
            piece = None if course.text.is_over else self._take_one(course, happening)
            if piece is None or piece.is_empty:
                continue
            if index in told:
                told[index].add(piece)
            else:
                told[index] = piece
            if course.text.is_over:
                course.finish = piece.finish or ""
                running.cancel(index)  # a stop text ends what else would go on
        return list(told.items())

    def _take_one(self, course: _TextCourse, happening: Happening) -> TextPiece | None:
        if isinstance(happening, Entered):
            course.cached, course.entered = happening.cached, time.monotonic()
            return None
        if isinstance(happening, ScoredPrompt):
            course.scores = happening.scores
            return None
        echo = self._echo(course) if self.settings.echo and not course.first else None
        if happening.token is not None:
            self._tell_token(course)
        piece = course.text.take(happening)
        if self.settings.max_tokens == 0:  # the prompt alone was asked for, and one token was made
            piece = TextPiece(finish="length")
            course.text.is_over = True
        if echo is None:
            return piece
        echo.add(piece)
        return echo

    def _tell_token(self, course: _TextCourse) -> None:
        """Observers are told of each token as it comes."""
        now, name, version = time.monotonic(), self.model.name, self.served.version
        for observer in self.context.generation_observers:
            if course.first:
                observer.next_token(name, version, now - course.latest)
            else:
                tokens = len(course.prompt.tokens)
                observer.first_token(name, version, tokens, now - self.arrived)
        course.first, course.latest = course.first or now, now

    def _echo(self, course: _TextCourse) -> TextPiece:
        """The prompt as a piece, its tokens with their places in its text."""
        prompt = course.prompt
        piece = TextPiece(prompt.text, list(prompt.tokens) if self.settings.token_ids else [])
        if self.settings.logprobs is None:
            return piece
        texts, offset = self.model.texts, 0
        detokenizer = None if texts is None else Detokenizer(texts.tokenizer)
        scores = [TokenLogprobs(prompt.tokens[0], 0.0), *course.scores]
        for place, (token, scored) in enumerate(zip(prompt.tokens, scores, strict=True)):
            piece.logprobs.append(PlacedToken(min(offset, len(prompt.text)), scored, place == 0))
            offset += len(detokenizer.push(token)) if detokenizer is not None else 0
        return piece

    def _new_tokens(self, course: _TextCourse) -> int:
        return 0 if self.settings.max_tokens == 0 else course.text.new_tokens

    def _count(self, outcome: str) -> None:
        now = time.monotonic()
        whole, version = now - self.arrived, self.served.version
        for course in self._courses:
            ended = EndedGeneration(
                self.model.name, version, len(course.prompt.tokens), course.cached,
                self._new_tokens(course), _since(self.arrived, course.entered),
                _since(self.arrived, course.first), whole, course.finish or outcome,
            )  # fmt: skip
            for observer in self.context.generation_observers:
                observer.generation_ended(ended)
        entered = [course.entered for course in self._courses if course.entered]
        queued = min(entered, default=now) - self.arrived
        self.served.statistics.end(
            EndedQuery(self.model.name, version, outcome, "", queued, whole - queued, whole,
                       len(self._courses), self.served.slo)
        )  # fmt: skip


def _since(begun: float, then: float) -> float:
    return then - begun if then else 0.0
