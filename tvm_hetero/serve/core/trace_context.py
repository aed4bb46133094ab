"""Which trace of a client's a request belongs to (W3C Trace Context, ``traceparent``)."""

from __future__ import annotations

from contextvars import ContextVar

TRACEPARENT: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""Of the request that is being answered here; None: it is of no trace."""
