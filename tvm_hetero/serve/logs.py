"""What the server writes about itself: few lines, however many things go wrong.

A stranger who can make the server write a line can fill a disk with them, and a name of his can
hold what a terminal obeys. So lines are counted (a few at once, then some a second; what was left
out is told), and are made printable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tvm_hetero.util.untrusted_names import printable, printable_lines

_LOGGERS = ("tvm_hetero.serve", "tornado", "asyncio")
_MOST = 4000  # characters of a message


class RateLimit(logging.Filter):
    """Lets lines through as a bucket fills: `burst` at once, then `rate` a second."""

    def __init__(self, rate: float = 10.0, burst: int = 50) -> None:
        super().__init__()
        self._rate, self._burst = rate, burst
        self._left, self._at = float(burst), time.monotonic()
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Called by logging, which holds the handler's lock."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            self._dropped += 1
            return False
        self._left -= 1
        if self._dropped:
            record.msg = f"{record.getMessage()} (and {self._dropped} lines were left out)"
            record.args = ()
            self._dropped = 0
        return True


class PrintableLines(logging.Formatter):
    """One line a message, without what terminals obey; a traceback of ours below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Called by logging."""
        record.message = printable(record.message, limit=_MOST)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        """Called by logging."""
        text = super().formatException(ei)  # type: ignore[arg-type]
        return printable_lines(text.splitlines(), _MOST)


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Write warnings and errors of the server, and of what it stands on."""
    handler = logging.StreamHandler()
    handler.addFilter(RateLimit())
    handler.setFormatter(PrintableLines())
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
