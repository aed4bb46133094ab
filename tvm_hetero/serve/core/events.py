"""What happened to the server, for who runs it: the last of it, as sentences.

For any thread.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field

# Kinds (the label `kind` of metrics; a closed set).
MODEL, INTERFERENCE, SWITCH, LIFECYCLE = EVENT_KINDS = (
    "model", "interference", "switch", "lifecycle",
)  # fmt: skip
_KEPT = 200


@dataclass(frozen=True)
class ServerEvent:
    """One sentence.

    Attributes
    ----------
    kind : one of `EVENT_KINDS`.
    text : what happened, and why.
    model : of which model; empty: of the server.
    at : when, by `time.time`.
    """

    kind: str
    text: str
    model: str = ""
    at: float = field(default_factory=time.time)


class EventLog:
    """The last events, and how many of each kind there have been.

    Attributes
    ----------
    counts : by kind, since the start.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._events: deque[ServerEvent] = deque(maxlen=kept)
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def record(self, event: ServerEvent) -> None:
        """One more; the oldest is forgotten when there are too many."""
        assert event.kind in EVENT_KINDS, event.kind
        with self._lock:
            self._events.append(event)
            self.counts[event.kind] += 1

    def latest(self, count: int) -> list[ServerEvent]:
        """The newest first."""
        with self._lock:
            return list(self._events)[::-1][:count]
