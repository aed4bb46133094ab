"""A sequence: what was asked for, and how far it has come.

Tokens and rows. A sequence of n tokens has up to n rows of caches: row p holds what token p left
there. The logits of token n-1 give token n, so a sequence that waits for its next token lacks one
row at least; `missing` are the tokens whose rows are to be made. Losing the caches is `rows = 0`:
all that matters is in the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from numbers import Integral

from tvm_hetero.errors import HeteroError, UsageError
from tvm_hetero.generation.sampling import GREEDY, Logits, Sampling, choose_token
from tvm_hetero.util.quote import quote

# Why a sequence has ended.
STOP, LIMIT, FULL, CANCELLED, FAILED = "stop", "limit", "full", "cancelled", "failed"


@dataclass(frozen=True)
class GenerationRequest:
    """What is asked for.

    Attributes
    ----------
    prompt : tokens that are given, one at least.
    max_new_tokens : how many to generate at most.
    sampling : how they are chosen.
    stop : tokens that end the sequence; they are its last then.
    """

    prompt: tuple[int, ...]
    max_new_tokens: int
    sampling: Sampling = GREEDY
    stop: frozenset[int] = frozenset()

    def check(self, length: int, vocabulary: int, what: str = "the prompt") -> None:
        """Refuse what a decoder of this length and vocabulary cannot do.

        Raises
        ------
        UsageError
            If the prompt is empty or too long, a token is none, no token is asked for, or the
            sampling is none.
        """
        if not self.prompt:
            raise UsageError(f"{what} is empty; expected one token at least")
        if len(self.prompt) > length:
            raise UsageError(
                f"{what} has {len(self.prompt)} tokens, but the caches hold {length}; shorten it, "
                "or build the decoder for more (--length)"
            )
        for token in (*self.prompt, *self.stop):
            if not 0 <= token < vocabulary:
                raise UsageError(
                    f"{what}: there is no token {token}; expected 0 to {vocabulary - 1}"
                )
        if not (isinstance(self.max_new_tokens, Integral) and self.max_new_tokens >= 1):
            raise UsageError(f"max_new_tokens {self.max_new_tokens!r}: expected 1 or more")
        if not isinstance(self.sampling, Sampling):
            raise UsageError(
                f"sampling {quote(self.sampling, 60)}: expected a Sampling, such as "
                "Sampling(temperature=0.5)"
            )


@dataclass(eq=False)
class Sequence:
    """A request on its way.

    Attributes
    ----------
    number : of the sequence; its random numbers depend on it.
    tokens : the prompt, and what was generated.
    rows : how many of the tokens are in the caches.
    reason : why it has ended; None while it has not.
    error : what went wrong, where the reason is that it failed.
    """

    number: int
    request: GenerationRequest
    tokens: list[int] = field(default_factory=list)
    rows: int = 0
    reason: str | None = None
    error: HeteroError | None = None

    def __post_init__(self) -> None:
        self.tokens = self.tokens or list(self.request.prompt)

    @property
    def missing(self) -> int:
        """Tokens that are not in the caches yet: before the next token can be chosen, they are."""
        return len(self.tokens) - self.rows

    @property
    def new_tokens(self) -> Many[int]:
        """What was generated."""
        return self.tokens[len(self.request.prompt) :]

    def advance(self, count: int, logits: Logits, length: int) -> int | None:
        """`count` more tokens are in the caches, the last of which gave `logits`.

        Returns
        -------
        int or None
            The next token, which is one of `tokens` now; None if there were more missing.

        Raises
        ------
        NumericsError
            If the logits are not finite.
        """
        self.rows += count
        if self.missing:
            return None
        token = choose_token(logits, self.request.sampling, self.number, len(self.tokens))
        self.tokens.append(token)
        self.reason = self._end(token, length)
        return token

    def _end(self, token: int, length: int) -> str | None:
        """Why the sequence ends with its last token, if it does."""
        if token in self.request.stop:
            return STOP
        if len(self.new_tokens) >= self.request.max_new_tokens:
            return LIMIT
        return FULL if len(self.tokens) > length else None


@dataclass(frozen=True)
class Event:
    """Something that happened to a sequence: a token, its end, or both at once.

    Attributes
    ----------
    sequence : its number.
    token : the next token; None where the sequence ends without one.
    reason, error : of the end (see `Sequence`); None while it goes on.
    """

    sequence: int
    token: int | None
    reason: str | None = None
    error: HeteroError | None = None
