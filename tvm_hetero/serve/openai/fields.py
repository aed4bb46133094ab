"""Fields of a request that we do not do: those that change nothing are left aside, others refused.

An answer that ignores half of what was asked looks like one and is none. So a field is taken, or it
is known to be harmless (who the user is, where logs go), or it has the value that means "as usual";
whatever else there is, is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from tvm_hetero.serve.openai.errors import InvalidRequestError
from tvm_hetero.util.quote import quote

T = TypeVar("T", bound=msgspec.Struct)

HARMLESS = frozenset({
    "user", "metadata", "store", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "prediction", "parallel_tool_calls", "request_id", "priority",
})  # fmt: skip
"""Whatever they say, the text is the same."""

USUAL: Mapping[str, tuple[Any, ...]] = {
    "suffix": ("",), "best_of": (1,), "tools": ([],), "tool_choice": ("none", "auto"),
    "functions": ([],), "function_call": ("none", "auto"), "modalities": (["text"],),
    "response_format": ({"type": "text"},), "reasoning_effort": ("none",), "verbosity": ("medium",),
    "min_p": (0,), "repetition_penalty": (1,), "length_penalty": (1,), "min_tokens": (0,),
    "use_beam_search": (False,), "early_stopping": (False,), "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,), "include_stop_str_in_output": (False,),
    "add_generation_prompt": (True,), "continue_final_message": (False,), "documents": ([],),
    "chat_template_kwargs": ({},), "truncate_prompt_tokens": (), "prompt_logprobs": (),
    "chat_template": (), "prompt_embeds": (), "audio": (), "web_search_options": (),
    "guided_json": (), "guided_regex": (), "guided_choice": (), "guided_grammar": (),
    "structured_outputs": (), "logits_processors": (), "bad_words": ([],),
}  # fmt: skip
"""What is not done, and the values (null is always one) by which it is not asked for."""


def read_fields(body: bytes | bytearray, kind: type[T]) -> T:
    """What a body says.

    Raises
    ------
    InvalidRequestError
        If it is no JSON object, or a field is missing, of another type, or asks for what is not
        done.
    """
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"the body is no JSON: {error}", code="invalid_json") from None
    except RecursionError:
        raise InvalidRequestError("the body is nested too deep", code="invalid_json") from None
    if not isinstance(given, dict):
        raise InvalidRequestError(
            f"the body is {quote(given, 60)}; expected an object such as {{\"model\": ...}}"
        )  # fmt: skip
    _check_names(given, frozenset(kind.__struct_fields__))
    return _convert(given, kind)


def convert_part(given: Any, kind: type[T], param: str) -> T:
    """A part of a body as a type.

    Raises
    ------
    InvalidRequestError
        If it is none.
    """
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequestError(f"{param}: {error}", param) from None


def _check_names(given: Mapping[str, Any], known: frozenset[str]) -> None:
    for name, value in given.items():
        if name in known or name in HARMLESS or value is None:
            continue
        if name not in USUAL:
            raise InvalidRequestError(
                f"there is no parameter {quote(name, 60)}", quote(name, 60), "unknown_parameter"
            )
        if not any(_is_same(value, usual) for usual in USUAL[name]):
            raise InvalidRequestError(
                f"{name} {quote(value, 60)} is not supported by this server; leave it out",
                name, "unsupported_parameter",
            )  # fmt: skip


def _is_same(value: Any, usual: Any) -> bool:
    """Equal, and no 0 for false or 1 for true."""
    return bool(value == usual) and isinstance(value, bool) == isinstance(usual, bool)


def _convert(given: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        text = str(error)  # "Expected `int`, got `str` - at `$.max_tokens`"
        _, _, path = text.partition("`$.")
        param = path.rstrip("`").split(".")[0].split("[")[0] or _missing(text)
        raise InvalidRequestError(text.replace("`$.", "`"), param) from None


def _missing(text: str) -> str | None:
    """The name in "Object missing required field `model`"."""
    _, mark, name = text.partition("required field `")
    return name.split("`")[0] if mark else None
