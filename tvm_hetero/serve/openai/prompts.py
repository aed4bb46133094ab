"""Prompts: texts and chats become tokens, lists of tokens are checked."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.openai.answering import Prompt
from tvm_hetero.serve.openai.errors import InvalidRequestError
from tvm_hetero.serve.openai.fields import convert_part
from tvm_hetero.serve.openai.schemas import ChatMessage
from tvm_hetero.serve.openai.settings import check_tokens
from tvm_hetero.serve.text.folder import FolderTexts
from tvm_hetero.util.untrusted_names import printable

_LOG = logging.getLogger("tvm_hetero.serve")

_MOST_PROMPTS = 2048
# Fields of a message that say nothing; others than these and those of `ChatMessage` are refused.
_QUIET = frozenset({"refusal", "annotations", "reasoning_content", "reasoning"})


def split_prompts(
    given: str | list[Any], length: int, param: str = "prompt"
) -> list[str | list[int]]:
    """The prompts of a completion: a text, texts, tokens, or lists of tokens; no list of them is
    looked at that is too long for a context of this length.

    Raises
    ------
    InvalidRequestError
        If it is none of these.
    """
    if isinstance(given, str):
        return [given]
    if len(given) > max(length, _MOST_PROMPTS):
        raise InvalidRequestError(
            f"{param} has {len(given)} elements; the model's context is {length} tokens", param,
            "context_length_exceeded",
        )  # fmt: skip
    if given and all(type(each) is int for each in given):
        return [given]
    is_list = [isinstance(each, list) and all(type(t) is int for t in each) for each in given]
    is_text = [isinstance(each, str) for each in given]
    if not given or len(given) > _MOST_PROMPTS or not (all(is_list) or all(is_text)):
        raise InvalidRequestError(
            f"{param}: expected a text, a list of texts, token ids, or lists of token ids; "
            f"at most {_MOST_PROMPTS} of them", param,
        )  # fmt: skip
    return given


def make_prompt(model: DecoderModel, given: str | list[int], *, special: bool) -> Prompt:
    """A prompt of a completion.

    Raises
    ------
    InvalidRequestError
        If it is empty or too long, or a text where the model knows none.
    """
    if not isinstance(given, str):
        check_tokens(given, model, "prompt")
        text = "" if model.texts is None else model.texts.tokenizer.decode(given)
        return Prompt(tuple(given), text)
    tokens = encode(model, given, "prompt", special=special)
    return Prompt(tokens, given)


def encode(model: DecoderModel, text: str, param: str, *, special: bool) -> tuple[int, ...]:
    """The tokens of a text.

    Raises
    ------
    InvalidRequestError
        As in `make_prompt`.
    """
    texts = texts_of(model, param)
    most = texts.tokenizer.most_characters(model.length)
    if len(text) > most:  # not tokenised: that would take long, and for nothing
        raise InvalidRequestError(
            f"{param} has {len(text)} letters; the model's context of {model.length} tokens has "
            f"room for {most} at most", param, "context_length_exceeded",
        )  # fmt: skip
    tokens = tuple(texts.tokenizer.encode(text, special=special))
    twice = texts.tokenizer.find_doubled_start(text, tokens) if special else None
    if twice is not None:
        _tell_of_doubled(model.name, twice)
    check_tokens(tokens, model, param)
    return tokens


@functools.lru_cache(maxsize=1000)  # said once: a client that does it does it each time
def _tell_of_doubled(model: str, token: str) -> None:
    _LOG.warning(
        "a prompt for %s begins with %s, which its tokenizer puts before each text: the model "
        "reads it twice; leave it out, or send add_special_tokens: false", model, printable(token),
    )  # fmt: skip


def texts_of(model: DecoderModel, param: str) -> FolderTexts:
    """How the model reads and writes.

    Raises
    ------
    InvalidRequestError
        If it knows numbers alone.
    """
    if model.texts is None:
        raise InvalidRequestError(
            f"the model {model.name!r} has no tokenizer (no tokenizer.json in its folder), so it "
            "takes token ids only: POST /v1/completions with prompt: [1, 2, 3]",
            param, "no_tokenizer",
        )  # fmt: skip
    return model.texts


def make_chat_prompt(model: DecoderModel, messages: Sequence[dict[str, Any]]) -> Prompt:
    """A chat as a prompt, by the model's own template.

    Raises
    ------
    InvalidRequestError
        If the model has none, or it refuses the messages.
    """
    texts = texts_of(model, "messages")
    if texts.chat is None:
        raise InvalidRequestError(
            f"the model {model.name!r} has no chat template; use /v1/completions", "model",
            "no_chat_template",
        )  # fmt: skip
    if not messages:
        raise InvalidRequestError("messages is empty; expected one at least", "messages")
    said = [_read_message(each, f"messages[{place}]") for place, each in enumerate(messages)]
    try:
        text = texts.chat.render(said)
    except UsageError as error:
        raise InvalidRequestError(str(error), "messages") from None
    return Prompt(encode(model, text, "messages", special=False), text)


def _read_message(given: dict[str, Any], param: str) -> dict[str, Any]:
    known = {"role", "content", "name"} | _QUIET
    others = sorted(name for name in given if name not in known and given[name] not in (None, []))
    if others:
        raise InvalidRequestError(
            f"{param}.{others[0][:60]} is not supported by this server; leave it out", param,
            "unsupported_parameter",
        )  # fmt: skip
    message = convert_part({key: given[key] for key in given if key not in _QUIET}, ChatMessage,
                           param)  # fmt: skip
    found: dict[str, Any] = {"role": message.role, "content": _text(message.content, param)}
    return found if message.name is None else {**found, "name": message.name}


def _text(content: str | list[dict[str, Any]] | None, param: str) -> str:
    """Parts of a text stand in lines of their own, as vLLM has it."""
    if not isinstance(content, list):
        return content or ""
    for part in content:
        if part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise InvalidRequestError(
                f"{param}.content: expected texts, such as {{'type': 'text', 'text': 'hello'}}",
                param, "unsupported_content",
            )  # fmt: skip
    return "\n".join(part["text"] for part in content)
