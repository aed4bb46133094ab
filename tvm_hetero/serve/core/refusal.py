"""What the server refuses, and what a client is told about it.

A refusal is no failure: the server says which limit stood against the query, its value, and when to
come back. Protocols write it in their own words (`http.errors`); all of them send ``Retry-After``.
"""

from __future__ import annotations

import math

from tvm_hetero.errors import HeteroError

# Names of limits (the label `reason` of metrics; a closed set, so that no client can invent one).
QUEUE_FULL, DEADLINE, DRAINING, NOT_READY, TOO_LARGE, STREAMS = REASONS = (
    "queue_full", "deadline", "draining", "not_ready", "too_large", "streams",
)  # fmt: skip

REASON_HEADER = "Tvm-Hetero-Reason"
"""The header that says which limit stood against a request."""


class RefusedError(HeteroError):
    """A query is not taken: come back later, or ask for less.

    Attributes
    ----------
    reason : which limit, one of `REASONS`.
    status : of HTTP: 503 (the server is full), 429 (this client has too much), 413 (too large).
    retry_after : seconds after which it may be taken; None: asking again is useless.
    takes : seconds after its arrival when it would have been computed, where that is too late.
    """

    def __init__(
        self,
        text: str,
        *,
        reason: str,
        status: int = 503,
        retry_after: float | None = None,
        takes: float | None = None,
    ) -> None:
        assert reason in REASONS, reason
        super().__init__(text)
        self.reason = reason
        self.status = status
        self.retry_after = retry_after
        self.takes = takes

    @property
    def retry_after_seconds(self) -> int | None:
        """Whole seconds, as the header wants them; one at least."""
        return None if self.retry_after is None else max(1, math.ceil(self.retry_after))


class UnknownModelError(HeteroError):
    """No model of that name or version is served."""


class RequestError(HeteroError):
    """A request is malformed: what was given, what was expected."""


class AccessError(HeteroError):
    """A request may not be made by who made it, or not in this form.

    Attributes
    ----------
    status : of HTTP: 401 (no key, or a wrong one), 403 (with no key at all), 421 (another host);
        406 and 415 (an answer, or a body, of a type that is not spoken here).
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status
