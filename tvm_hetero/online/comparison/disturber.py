"""A disturbance that begins and ends with requests of a stream that runs.

The one who takes a stream's outputs says how many requests have ended; a thread of its own starts
and ends the program, since a start takes some milliseconds in which the stream must not wait.
"""

from __future__ import annotations

import threading

from tvm_hetero.errors import HeteroError
from tvm_hetero.online.comparison.spans import DisturbedSpans
from tvm_hetero.processes.disturbers import check_disturbance, disturb
from tvm_hetero.util.closeable import Closeable

# A program that nobody ends is gone after so many seconds.
LONGEST = 600.0
# How long to wait for one to be gone.
_CLOSING = 30.0


class SpanDisturber(Closeable):
    """Disturbs a core while the requests of given spans go through.

    Parameters
    ----------
    kind, core : see `tvm_hetero.processes.disturbers.disturb`.
    spans : the requests.

    Raises
    ------
    UsageError
        If there is no such kind, or the core is not one that this process may use.
    """

    def __init__(self, kind: str, core: int, spans: DisturbedSpans) -> None:
        check_disturbance(kind, core)
        self._kind, self._core, self._spans = kind, core, spans
        self._edges = frozenset(spans.edges)
        self._ended = 0
        self._closed = False
        self._changed = threading.Condition()
        self._failure: HeteroError | None = None
        self._thread = threading.Thread(target=self._run, name="tvm_hetero disturber", daemon=True)
        self._thread.start()

    def tell(self, ended: int) -> None:
        """So many requests have ended.

        Raises
        ------
        ProfileError
            If the disturbance did not start, or ended by itself.
        """
        if self._failure is not None:
            raise self._failure
        if ended in self._edges:
            with self._changed:
                self._ended = ended
                self._changed.notify_all()

    def close(self) -> None:
        """End what disturbs, now."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(_CLOSING)

    def _run(self) -> None:
        try:
            for begin, end in self._spans.spans:
                if not self._reached(begin):
                    return
                with disturb(self._kind, self._core, LONGEST):
                    self._reached(end)
        except HeteroError as error:
            self._failure = error

    def _reached(self, request: int) -> bool:
        """Wait for a request, or for the end; whether it was the request."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._ended >= request)
        return self._ended >= request
