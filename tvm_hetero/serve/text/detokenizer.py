"""Text out of tokens as they come, never with half a character.

A character may be spread over tokens, and what a token stands for may depend on the one before it
(a blank in front of a word). So the text of a window of tokens is worked out each time, and what is
new in it is told. What ends in U+FFFD may be a half: it waits for the next token, or the end. The
window begins anew with a token that is whole and has a text of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

HALF = "\ufffd"


class Decodes(Protocol):
    """What turns tokens into text (`serve.text.tokenizer.TextTokenizer`)."""

    def decode(self, tokens: Iterable[int]) -> str: ...


class Detokenizer:
    """The text of one sequence."""

    def __init__(self, tokenizer: Decodes) -> None:
        self._tokenizer = tokenizer
        self._window: list[int] = []
        self._told = 0  # characters of the window's text

    def push(self, token: int) -> str:
        """What a token adds to the text, and what waited for it; mostly a few letters."""
        self._window.append(token)
        text = self._tokenizer.decode(self._window)
        whole = text.rstrip(HALF)
        new = whole[self._told :]
        self._told = max(self._told, len(whole))
        if whole == text:
            alone = self._tokenizer.decode([token])
            if alone and HALF not in alone:
                self._window, self._told = [token], len(alone)
        return new

    def finish(self) -> str:
        """What still waits: a half is U+FFFD now."""
        rest = self._tokenizer.decode(self._window)[self._told :]
        self._window, self._told = [], 0
        return rest
