"""One text on its way to a client: from tokens to pieces that may be told.

Nothing is told that might turn out otherwise: half a character, or what may be the beginning of a
stop text. A token's log-probability is told with the text that it begins, so tokens of a stop text
are not told, either.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tvm_hetero.errors import RunError
from tvm_hetero.generation.logprobs import TokenLogprobs
from tvm_hetero.generation.sequences import FAILED, FULL, LIMIT, STOP, Event
from tvm_hetero.serve.openai.settings import Settings
from tvm_hetero.serve.text.detokenizer import Detokenizer
from tvm_hetero.serve.text.folder import FolderTexts
from tvm_hetero.serve.text.stops import StopScanner

ENDS = {STOP: "stop", LIMIT: "length", FULL: "length"}
"""Why a text has ended, in the protocol's words."""


@dataclass(frozen=True)
class PlacedToken:
    """A token whose log-probability is told, and where its text begins, in letters."""

    offset: int
    scored: TokenLogprobs
    is_first: bool = False  # of a prompt: nothing stands before it by which it could be likely


@dataclass
class Piece:
    """What may be told of a choice next.

    Attributes
    ----------
    text, tokens, logprobs : new letters; numbers of new tokens; tokens that begin in what is told.
    finish : why it has ended; None while it goes on.
    """

    text: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[PlacedToken] = field(default_factory=list)
    finish: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.text or self.tokens or self.logprobs or self.finish)

    def add(self, other: Piece) -> None:
        """Append what comes behind."""
        self.text += other.text
        self.tokens += other.tokens
        self.logprobs += other.logprobs
        self.finish = other.finish


class ChoiceText:
    """Makes pieces of one sequence's tokens.

    Parameters
    ----------
    begins_at : letters that stand before it in the same text (a prompt that is echoed).

    Attributes
    ----------
    new_tokens : that were generated.
    is_over : whether it has ended; nothing more is told.
    """

    def __init__(self, settings: Settings, texts: FolderTexts | None, begins_at: int = 0) -> None:
        self._settings = settings
        self._detokenizer = None if texts is None else Detokenizer(texts.tokenizer)
        self._scanner = StopScanner(settings.stop_texts)
        self._read = self._told = begins_at
        self._placed: deque[PlacedToken] = deque()
        self.new_tokens = 0
        self.is_over = False

    def take(self, event: Event) -> Piece:
        """What an event adds.

        Raises
        ------
        RunError
            If the sequence has failed.
        """
        if event.reason is not None and event.reason not in ENDS:
            self.is_over = True
            raise event.error if event.reason == FAILED and event.error else RunError(
                f"the text was {event.reason}"
            )  # fmt: skip
        piece = Piece()
        if event.token is not None:
            self._take_token(event, piece)
        if event.reason is not None and not self._scanner.is_hit:
            self._flush(piece)
        if self._scanner.is_hit:
            piece.finish = ENDS[STOP]
        elif event.reason is not None:
            piece.finish = ENDS[event.reason]
        self.is_over = piece.finish is not None
        self._release(piece)
        return piece

    def _take_token(self, event: Event, piece: Piece) -> None:
        assert event.token is not None
        self.new_tokens += 1
        if self._settings.token_ids:
            piece.tokens.append(event.token)
        if event.reason == STOP:
            return  # the token that ends a text is none of it
        if event.logprobs is not None:
            self._placed.append(PlacedToken(self._read, event.logprobs))
        if self._detokenizer is not None:
            self._tell(self._detokenizer.push(event.token), piece)

    def _flush(self, piece: Piece) -> None:
        """The text is over: what waited is told."""
        if self._detokenizer is not None:
            self._tell(self._detokenizer.finish(), piece)
        if not self._scanner.is_hit:
            rest = self._scanner.finish()
            piece.text += rest
            self._told += len(rest)

    def _tell(self, text: str, piece: Piece) -> None:
        self._read += len(text)
        told = self._scanner.push(text)
        piece.text += told
        self._told += len(told)

    def _release(self, piece: Piece) -> None:
        """Tokens that begin in what was told; at the end the others, but for a stop text's."""
        is_whole = self._detokenizer is None or (self.is_over and not self._scanner.is_hit)
        while self._placed and (is_whole or self._placed[0].offset < self._told):
            piece.logprobs.append(self._placed.popleft())
