"""Text to tokens and back, as the model's own tokenizer has it; and the bytes of each token."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import tokenizers

from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable

# Characters that a text may have more than its tokens: what a tokenizer drops, such as blanks.
_SLACK = 1024
# What is encoded of each file before it is believed: a template may name a token that is not there.
_PROBE = ""

T = TypeVar("T")


class TextTokenizer:
    """A tokenizer of the package `tokenizers`, without the cutting and padding of its file.

    Parameters
    ----------
    path : of ``tokenizer.json``.

    Raises
    ------
    ModelError
        If the file is no tokenizer, or one that can encode nothing. So do all methods where the
        package fails at a text.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.name
        self._tokenizer: Any = self._call(lambda: tokenizers.Tokenizer.from_file(str(path)))
        self._call(lambda: self._tokenizer.encode(_PROBE))
        self._tokenizer.no_truncation()  # a prompt that is cut in silence is a wrong answer
        self._tokenizer.no_padding()
        decoder = self._tokenizer.decoder
        self._kinds = set(_decoder_kinds(decoder and json.loads(decoder.__getstate__())))
        self._added = dict(self._tokenizer.get_added_tokens_decoder())
        self._bytes: dict[int, bytes] = {}

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text; `special`: with those that the model wants around it.

        Raises
        ------
        UsageError
            If it has half a character, as what is no UTF-8 has.
        """
        if not is_whole(text):
            raise UsageError(f"{quote(text, 60)} has half a character; expected text in UTF-8")
        return list(
            self._call(lambda: self._tokenizer.encode(text, add_special_tokens=special)).ids
        )

    def find_doubled_start(self, text: str, tokens: Sequence[int]) -> str | None:
        """The special token with which a text begins although the tokenizer puts it before each.

        Parameters
        ----------
        text, tokens : a text, and what `encode` made of it.
        """
        if len(tokens) < 2 or tokens[0] != tokens[1] or tokens[0] not in self._added:
            return None
        own = _leading(self.encode(text, special=False), tokens[0])
        return (
            str(self._added[tokens[0]].content) if 0 < own < _leading(tokens, tokens[0]) else None
        )

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of some tokens; special ones have none."""
        numbers = list(tokens)
        return str(self._call(lambda: self._tokenizer.decode(numbers, skip_special_tokens=True)))

    def find(self, text: str) -> int | None:
        """The number of a token that is called so."""
        found = self._tokenizer.token_to_id(text)
        return None if found is None else int(found)

    def most_characters(self, tokens: int) -> int:
        """How long a text of so many tokens may be: a longer one need not be looked at."""
        return tokens * (self._longest + 1) + _SLACK

    def bytes_of(self, token: int) -> bytes:
        """What a token stands for: of a character in several tokens, each has some bytes."""
        if token not in self._bytes:
            self._bytes[token] = self._find_bytes(token)
        return self._bytes[token]

    def label(self, token: int) -> str:
        """A token as text; where its bytes are none, ``bytes:\\xe2\\x82`` as OpenAI writes it."""
        data = self.bytes_of(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._tokenizer.get_vocab(with_added_tokens=True)), default=1)

    def _call(self, call: Callable[[], T]) -> T:
        """What a call of the package gives, or that it cannot work by this file."""
        try:
            return call()
        except MemoryError:
            raise
        except BaseException as error:  # a panic of Rust is no Exception
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ModelError(
                f"{self._file} is no tokenizer that the package tokenizers "
                f"{tokenizers.__version__} works by ({printable(error, 200)}); copy it from the "
                "model's folder again"
            ) from None

    def _find_bytes(self, token: int) -> bytes:
        if token in self._added:
            return str(self._added[token].content).encode()
        name = self._tokenizer.id_to_token(token)
        if name is None:
            return b""
        if "ByteLevel" in self._kinds:
            return b"".join(_BYTES.get(letter, letter.encode()) for letter in name)
        if "ByteFallback" in self._kinds and len(name) == 6 and name.startswith("<0x"):
            return bytes([int(name[3:5], 16)])
        if self._kinds & {"Metaspace", "Replace"}:
            return str(name).replace("▁", " ").encode()
        return self.decode([token]).encode()


def is_whole(text: str) -> bool:
    """Whether each character is one: JSON, and arguments that are no UTF-8, may have halves."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _leading(tokens: Sequence[int], token: int) -> int:
    """How often a token stands at the beginning, one after the other."""
    return sum(1 for _ in itertools.takewhile(token.__eq__, tokens))


def _decoder_kinds(decoder: Mapping[str, Any] | None) -> Iterable[str]:
    if decoder is None:
        return
    yield str(decoder.get("type"))
    for each in decoder.get("decoders") or ():
        yield from _decoder_kinds(each)


def _byte_letters() -> Mapping[str, int]:
    """The letters by which byte-level tokenizers write bytes (GPT-2's table)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {chr(byte): byte for byte in plain}
    return letters | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTES = {letter: bytes([byte]) for letter, byte in _byte_letters().items()}
