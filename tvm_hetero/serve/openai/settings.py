"""From the fields of a request to what a decoder is asked for; every range is checked here."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.generation.penalties import NO_PENALTIES, Penalties
from tvm_hetero.generation.sampling import Sampling
from tvm_hetero.generation.sequences import GenerationRequest
from tvm_hetero.serve.core.limits import Limits
from tvm_hetero.serve.core.query import Priority
from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.openai.errors import InvalidRequestError
from tvm_hetero.serve.openai.schemas import CommonFields

_TIERS = ("auto", "default", "flex", "scale", "priority")
_SEEDS = 2**64


@dataclass(frozen=True)
class TextSettings:
    """What is wanted of each prompt.

    Attributes
    ----------
    choices : texts of each prompt.
    max_tokens : of each text; None: what the context has room for.
    sampling, penalties : how tokens are chosen.
    stop_texts, stop_tokens : what ends a text.
    logprobs : how many likeliest tokens are told; None: nothing is.
    echo : whether the prompt is told, too.
    priority : who goes first.
    token_ids : whether tokens' numbers are told.
    """

    choices: int
    max_tokens: int | None
    sampling: Sampling
    penalties: Penalties
    stop_texts: tuple[str, ...]
    stop_tokens: frozenset[int]
    logprobs: int | None
    echo: bool
    priority: Priority
    token_ids: bool

    def requests(self, prompt: tuple[int, ...], length: int) -> list[GenerationRequest]:
        """One for each choice. A choice draws from a stream of its own: the same seed and request
        give the same text, whatever else runs.

        Raises
        ------
        InvalidRequestError
            If the context has no room for it.
        """
        room = length - len(prompt)
        wanted = room if self.max_tokens is None else self.max_tokens
        if room < max(wanted, 0 if self.max_tokens == 0 else 1):
            raise InvalidRequestError(
                f"the model's context is {length} tokens; the prompt has {len(prompt)} and "
                f"{max(wanted, 1)} are asked for; shorten it, or ask for fewer (max_tokens)",
                "messages" if self.max_tokens is None else "max_tokens",
                "context_length_exceeded",
            )
        return [
            GenerationRequest(
                prompt, max(1, wanted), self.sampling, self.stop_tokens, self.penalties,
                stream=choice, logprobs=self.logprobs,
                scores_prompt=self.echo and self.logprobs is not None,
                priority=int(self.priority),
            )
            for choice in range(self.choices)
        ]  # fmt: skip


def read_settings(
    fields: CommonFields,
    model: DecoderModel,
    limits: Limits,
    *,
    max_tokens: int | None,
    logprobs: int | None,
    echo: bool = False,
) -> TextSettings:
    """TextSettings of a request.

    Parameters
    ----------
    max_tokens, logprobs, echo : which the protocols write each in its own way.

    Raises
    ------
    InvalidRequestError
        If one is out of its range.
    """
    stops = [fields.stop] if isinstance(fields.stop, str) else fields.stop or []
    _check_stops(stops, model, limits)
    if fields.stream_options is not None and not fields.stream:
        raise InvalidRequestError("stream_options: only with stream", "stream_options")
    _check(fields.service_tier in (None, *_TIERS), "service_tier", f"one of {', '.join(_TIERS)}")
    least = 0 if echo else 1
    _check(max_tokens is None or max_tokens >= least, "max_tokens", f"{least} or more")
    choices = 1 if fields.n is None else fields.n
    _check(1 <= choices <= limits.choices, "n", f"1 to {limits.choices}")
    _check(logprobs is None or 0 <= logprobs <= limits.logprobs, "logprobs",
           f"0 to {limits.logprobs}")  # fmt: skip
    return TextSettings(
        choices, max_tokens, _sampling(fields), _penalties(fields, model), tuple(stops),
        _stop_tokens(fields, model), logprobs, echo,
        Priority.HIGH if fields.service_tier == "priority" else Priority.LOW,
        bool(fields.return_token_ids) or model.texts is None,
    )  # fmt: skip


def _check(holds: bool, param: str, expected: str) -> None:
    if not holds:
        raise InvalidRequestError(f"{param}: expected {expected}", param)


def _check_stops(stops: Collection[str], model: DecoderModel, limits: Limits) -> None:
    _check(len(stops) <= limits.stops, "stop", f"{limits.stops} texts at most")
    _check(all(0 < len(stop) <= 1024 for stop in stops), "stop", "texts of 1 to 1024 letters")
    if stops and model.texts is None:
        raise InvalidRequestError(
            "stop: the model has no tokenizer, so it knows no texts; use stop_token_ids", "stop"
        )


def _sampling(fields: CommonFields) -> Sampling:
    temperature = 1.0 if fields.temperature is None else fields.temperature
    top_p = 1.0 if fields.top_p is None else fields.top_p
    top_k = 0 if fields.top_k is None else fields.top_k
    _check(0 <= temperature <= 2, "temperature", "0 to 2")
    _check(0 < top_p <= 1, "top_p", "more than 0 and at most 1")
    _check(top_k >= -1, "top_k", "1 or more, or 0 or -1 for all tokens")
    seed = secrets.randbits(64) if fields.seed is None else fields.seed % _SEEDS
    return Sampling(temperature, max(0, top_k), top_p, seed)


def _penalties(fields: CommonFields, model: DecoderModel) -> Penalties:
    frequency, presence = fields.frequency_penalty or 0.0, fields.presence_penalty or 0.0
    _check(-2 <= frequency <= 2, "frequency_penalty", "-2 to 2")
    _check(-2 <= presence <= 2, "presence_penalty", "-2 to 2")
    bias = fields.logit_bias or {}
    most = model.decoder.vocabulary
    are_tokens = all(each.isdecimal() and len(each) < 10 and int(each) < most for each in bias)
    _check(are_tokens, "logit_bias", f"tokens' numbers, 0 to {most - 1}")
    _check(all(-100 <= value <= 100 for value in bias.values()), "logit_bias", "-100 to 100")
    if not (frequency or presence or bias):
        return NO_PENALTIES
    return Penalties(frequency, presence, tuple((int(k), v) for k, v in sorted(bias.items())))


def _stop_tokens(fields: CommonFields, model: DecoderModel) -> frozenset[int]:
    given = frozenset(fields.stop_token_ids or ())
    _check(len(given) <= 64 and all(0 <= token < model.decoder.vocabulary for token in given),
           "stop_token_ids", f"at most 64 numbers below {model.decoder.vocabulary}")  # fmt: skip
    return given if fields.ignore_eos else given | model.stop


def check_tokens(tokens: Collection[int], model: DecoderModel, param: str) -> None:
    """Refuse tokens that the model does not have.

    Raises
    ------
    InvalidRequestError
        If there are none, or one is not there.
    """
    try:
        GenerationRequest(tuple(tokens), 1).check(
            max(len(tokens), 1), model.decoder.vocabulary, param
        )
    except UsageError as error:
        raise InvalidRequestError(str(error), param) from None
