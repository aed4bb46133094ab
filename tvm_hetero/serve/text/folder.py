"""What a decoder's folder says of texts: its tokenizer, its chat template, what ends a text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_hetero.decoders.text_files import CHAT_TEMPLATE, TOKENIZER, TOKENIZER_CONFIG
from tvm_hetero.errors import ModelError
from tvm_hetero.serve.text.chat_template import ChatTemplate
from tvm_hetero.serve.text.tokenizer import TextTokenizer, is_whole
from tvm_hetero.util.plain_file import read_plain_text
from tvm_hetero.util.untrusted_names import printable

_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class FolderTexts:
    """How a model reads and writes.

    Attributes
    ----------
    tokenizer : text to tokens and back.
    chat : a chat as a text; None: the model was not made for chats.
    stop : tokens that end a text by the tokenizer's settings.
    names : of special tokens: ``bos_token``, ...
    """

    tokenizer: TextTokenizer
    chat: ChatTemplate | None
    stop: frozenset[int]
    names: Mapping[str, str]


def read_texts(folder: Path) -> FolderTexts | None:
    """What a folder has; None: it has no tokenizer.

    Raises
    ------
    ModelError
        If something there is malformed.
    """
    if not (folder / TOKENIZER).is_file():
        return None
    tokenizer = TextTokenizer(folder / TOKENIZER)
    settings = _read_settings(folder / TOKENIZER_CONFIG)
    names = _special_names(settings)
    template = _find_template(folder, settings)
    end = tokenizer.find(names["eos_token"]) if "eos_token" in names else None
    return FolderTexts(
        tokenizer,
        None if template is None else ChatTemplate(template, names),
        frozenset() if end is None else frozenset({end}),
        names,
    )


def _read_settings(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        settings = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path.name} is no JSON ({printable(error)}); copy it from the model's folder again"
        ) from None
    if not isinstance(settings, dict):
        raise ModelError(f"{path.name}: expected an object of settings")
    return settings


def _read(path: Path) -> str:
    try:
        return read_plain_text(path, _MOST_BYTES)
    except OSError as error:
        raise ModelError(
            f"{path.name} cannot be read: {error.strerror}; copy it from the model's folder again"
        ) from None


def _special_names(settings: Mapping[str, Any]) -> dict[str, str]:
    """``bos_token`` and its like, which are texts or objects with one."""
    found = {}
    for key, value in settings.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            if not is_whole(text):
                raise ModelError(
                    f"{TOKENIZER_CONFIG}: {key} has half a character, which no text has"
                )
            found[key] = text
    return found


def _find_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """The file of its own, or what the settings say: a text, or several with names."""
    if (folder / CHAT_TEMPLATE).is_file():
        return _read(folder / CHAT_TEMPLATE)
    given = settings.get("chat_template")
    if isinstance(given, list):
        named = {each.get("name"): each.get("template") for each in given if isinstance(each, dict)}
        given = named.get("default")
    return given if isinstance(given, str) else None
