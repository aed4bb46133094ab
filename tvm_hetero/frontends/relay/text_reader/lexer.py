"""Words of a Relay program in text. Comments go, but for those that give a type."""

from __future__ import annotations

import bisect
import re
from typing import NamedTuple

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits
from tvm_hetero.util.untrusted_names import printable

_TOKEN = re.compile(
    r"""
    (?P<space>\s+ | //[^\n]*)
  | (?P<comment>/\*)
  | (?P<local>%[A-Za-z_0-9][\w]*(?:(?:\.|::|/|-)\w+|:\d+(?!\w))*)
  | (?P<global>@[A-Za-z_][\w.]*)
  | (?P<special>-?(?:inf|nan))(?P<width>f(?:16|64)?)\b
  | (?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?P<suffix>[fiuh]\d{0,3}|bf16)?(?![\w.])
  | (?P<item>\.\d+)
  | (?P<name>[A-Za-z_][\w]*(?:\.[A-Za-z_][\w]*)*)
  | (?P<text>"(?:[^"\\\n]|\\.)*")
  | (?P<quoted>'[^'\n]*')
  | (?P<sign>-> | \#\[ | [()\[\]{}<>,:;=?.|&*+\-/])
  | (?P<loose>[0-9]\w*)
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """One word: its kind (a group of the pattern, ``type`` or ``end``), and where it stands."""

    kind: str
    text: str
    at: int
    suffix: str = ""


class SourceText:
    """A text that can say on which line something is."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def where(self, at: int) -> str:
        """Line and column of a place."""
        line = bisect.bisect_right(self.starts, at)
        return f"line {line}, column {at - self.starts[line - 1] + 1}"

    def error(self, at: int, problem: str) -> ModelError:
        """An error that says where it is."""
        return ModelError(f"{self.name}: {self.where(at)}: {problem}")


def tokens(source: SourceText, limits: RelayLimits = DEFAULT_LIMITS) -> list[Token]:
    """Return the words of a text, an ``end`` last.

    Raises
    ------
    ModelError
        A character that no program has, an open comment, or too many words.
    """
    found: list[Token] = []
    at, text, uncounted = 0, source.text, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise source.error(at, f"'{printable(text[at : at + 20])}' is not text of Relay")
        kind = match.lastgroup or ""
        end = match.end()
        if kind == "comment":
            end, words = _comment(source, at, found)
            uncounted += words
        elif kind == "suffix" or kind == "number":
            found.append(Token("number", match["number"], at, match["suffix"] or ""))
        elif kind == "width":
            found.append(Token("number", match["special"], at, match["width"]))
        elif kind != "space":
            found.append(Token(kind, match.group(), at))
        if len(found) + uncounted > limits.tokens:
            raise source.error(at, f"more than {limits.tokens} words and comments")
        at = end
    found.append(Token("end", "the end", len(text)))
    return found


def _comment(source: SourceText, at: int, found: list[Token]) -> tuple[int, int]:
    """Skip a comment; one that gives a type becomes a word. Returns where it ends and for how many
    words it counts: a type is parsed too.
    """
    words = 1
    end = source.text.find("*/", at + 2)
    if end < 0:
        raise source.error(at, "a comment is not closed: the file is truncated")
    content = source.text[at + 2 : end].strip()
    if content.startswith("ty="):
        kind = content[3:].split(" span=")[0].strip()
        found.append(Token("type", kind, at))
        words += kind.count(",") + kind.count("(")
    return end + 2, words
