"""What requests may say, as types; `fields` says what becomes of all else."""

from __future__ import annotations

from typing import Any

import msgspec


class StreamOptions(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How a stream is written; `include_obfuscation` pads against listeners and is not done."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class CommonFields(msgspec.Struct, kw_only=True):
    """What completions and chats have in common."""

    model: str
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    service_tier: str | None = None
    timeout: float | None = None
    return_token_ids: bool | None = None


class CompletionFields(CommonFields, kw_only=True):
    """``POST /v1/completions``."""

    prompt: str | list[Any]
    logprobs: int | None = None
    echo: bool | None = None
    add_special_tokens: bool | None = None


class ChatMessage(msgspec.Struct, kw_only=True):
    """Who said what; the content is a text, or parts of which each is a text."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None


class ChatFields(CommonFields, kw_only=True):
    """``POST /v1/chat/completions``."""

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class TokenizeFields(msgspec.Struct, kw_only=True):
    """``POST /tokenize``: a text, or a chat. The model may be left out where there is one only."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None


class DetokenizeFields(msgspec.Struct, kw_only=True):
    """``POST /detokenize``."""

    model: str | None = None
    tokens: list[int]


class EmbeddingFields(msgspec.Struct, kw_only=True):
    """``POST /v1/embeddings``."""

    model: str
    input: str | list[Any]
    encoding_format: str | None = None
    dimensions: int | None = None
    timeout: float | None = None
