"""Reading the words of a Relay text one after the other: what all parts of the parser share."""

from __future__ import annotations

from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.limits import RelayLimits
from tvm_hetero.frontends.relay.core.program import Type
from tvm_hetero.frontends.relay.text_reader.lexer import SourceText, Token
from tvm_hetero.frontends.relay.text_reader.types import parse_type, read_type
from tvm_hetero.util.untrusted_names import printable


class Words:
    """The words of a text, and the one that is next. `metadata` has what ``meta[...]`` is."""

    def __init__(
        self,
        source: SourceText,
        words: list[Token],
        metadata: dict[str, list[Any]],
        limits: RelayLimits,
    ) -> None:
        self.source, self.words, self.metadata, self.limits = source, words, metadata, limits
        self.at = 0
        self.depth = 0

    @property
    def word(self) -> Token:
        """The next word."""
        return self.words[self.at]

    def error(self, problem: str, word: Token | None = None) -> ModelError:
        """An error at a word; without one, at the next."""
        word = word or self.word
        ended = "; the file is truncated" if word.kind == "end" else ""
        return self.source.error(word.at, problem + ended)

    def take(self) -> Token:
        """The next word, which is then read; the end stays."""
        word = self.word
        if word.kind != "end":
            self.at += 1
        return word

    def ahead(self, text: str) -> bool:
        """Whether the next word is this sign or name."""
        return self.word.text == text and self.word.kind in ("sign", "name")

    def accept(self, text: str) -> bool:
        """Read this sign or name if it is next."""
        if self.ahead(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Read this sign or name; anything else is an error."""
        if not self.accept(text):
            raise self.error(f"expected '{text}', got '{printable(self.word.text, 40)}'")

    def deeper(self) -> None:
        """One level further into parentheses, of which there is a limit."""
        self.depth += 1
        if self.depth > self.limits.depth:
            raise self.error(f"nested more than {self.limits.depth} deep")

    def skip_types(self) -> Type | None:
        """The type in a comment after an expression, if any."""
        kind = None
        while self.word.kind == "type":
            word = self.take()
            kind = parse_type(word.text, self.source.where(word.at), self.limits)
        return kind

    def type(self) -> Type | None:
        """A type; those that say nothing are skipped as words."""
        start = self.word.at
        kind, end = read_type(self.source.text, start, self.source.where(start), self.limits)
        if kind is None:
            self._skip_type()
            return None
        while self.word.at < end and self.word.kind != "end":
            self.at += 1
        return kind

    def _skip_type(self) -> None:
        """``fn (...) -> T``, ``_``, ``meta[...][n]``: to where a type cannot go on."""
        depth = 0
        while self.word.kind != "end":
            text = self.word.text
            if depth == 0 and text in (",", ")", "=", "{", ";", "}"):
                return
            depth += (text in "([{") - (text in ")]}") if self.word.kind == "sign" else 0
            self.at += 1
