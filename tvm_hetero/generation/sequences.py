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
from tvm_hetero.generation.logprobs import TokenLogprobs, score_token
from tvm_hetero.generation.penalties import NO_PENALTIES, Penalties, penalise
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
    penalties : what logits suffer before a token is chosen.
    stream : whose random numbers it takes; None: those of the sequence's number, which depends on
        what else was asked. With a stream of its own, the same request gives the same text.
    logprobs : how many of the likeliest tokens are told with each token; None: nothing is.
    scores_prompt : whether the prompt's tokens are scored, too. They go in by steps then, since a
        chunk has the logits of its last token only: a prompt of n tokens takes n steps, which it
        shares with its neighbours.
    priority : who enters a slot first, the lower ones; among equal ones who came first.
    """

    prompt: tuple[int, ...]
    max_new_tokens: int
    sampling: Sampling = GREEDY
    stop: frozenset[int] = frozenset()
    penalties: Penalties = NO_PENALTIES
    stream: int | None = None
    logprobs: int | None = None
    scores_prompt: bool = False
    priority: int = 0

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
        self._check_tokens(vocabulary, what)
        if not (isinstance(self.max_new_tokens, Integral) and self.max_new_tokens >= 1):
            raise UsageError(f"max_new_tokens {self.max_new_tokens!r}: expected 1 or more")
        if not isinstance(self.sampling, Sampling):
            raise UsageError(
                f"sampling {quote(self.sampling, 60)}: expected a Sampling, such as "
                "Sampling(temperature=0.5)"
            )

    def _check_tokens(self, vocabulary: int, what: str) -> None:
        bias = [token for token, _ in self.penalties.bias]
        for where, tokens in ((what, self.prompt), ("stop", self.stop), ("logit_bias", bias)):
            for token in tokens:
                if not 0 <= token < vocabulary:
                    raise UsageError(
                        f"{where}: there is no token {token}; expected 0 to {vocabulary - 1}"
                    )


@dataclass(eq=False)
class Sequence:
    """A request on its way.

    Attributes
    ----------
    number : of the sequence; its random numbers depend on it, but for a stream of its own.
    tokens : the prompt, and what was generated.
    rows : how many of the tokens are in the caches.
    whole : of these the first, which whole chunks have made one after the other: who begins with
        the same tokens has the same rows, bit by bit.
    scores, logprobs : of the prompt's tokens from the second on; of the last token.
    reason : why it has ended; None while it has not.
    error : what went wrong, where the reason is that it failed.
    """

    number: int
    request: GenerationRequest
    tokens: list[int] = field(default_factory=list)
    rows: int = 0
    whole: int = 0
    reason: str | None = None
    error: HeteroError | None = None
    scores: list[TokenLogprobs] = field(default_factory=list)
    logprobs: TokenLogprobs | None = None

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
            self._score(logits)
            return None
        request = self.request
        stream = self.number if request.stream is None else request.stream
        allowed = penalise(logits, request.penalties, self.new_tokens)
        token = choose_token(allowed, request.sampling, stream, len(self.tokens))
        if request.logprobs is not None:
            self.logprobs = score_token(logits, token, request.logprobs)
        self.tokens.append(token)
        self.reason = self._end(token, length)
        return token

    def _score(self, logits: Logits) -> None:
        """The prompt's next token, once: caches that were lost are made again."""
        if self.request.scores_prompt and len(self.scores) == self.rows - 1:
            token, count = self.tokens[self.rows], self.request.logprobs or 0
            self.scores.append(score_token(logits, token, count))

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
    logprobs : of the token, where they were asked for.
    """

    sequence: int
    token: int | None
    reason: str | None = None
    error: HeteroError | None = None
    logprobs: TokenLogprobs | None = None


@dataclass(frozen=True)
class Entered:
    """A sequence has a slot.

    Attributes
    ----------
    sequence : its number.
    cached : tokens of its prompt whose rows were there already.
    """

    sequence: int
    cached: int


@dataclass(frozen=True)
class ScoredPrompt:
    """The prompt of a sequence is in; told before its first token, where scores were asked for.

    Attributes
    ----------
    sequence : its number.
    scores : of the prompt's tokens from the second on.
    """

    sequence: int
    scores: tuple[TokenLogprobs, ...]


Happening = Event | Entered | ScoredPrompt
