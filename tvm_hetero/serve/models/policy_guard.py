"""What is done when a policy fails: said before the error goes on.

A context of its own class, and one object for all questions: a generator would cost a microsecond
at each, of which there are several a request.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class PolicyGuard:
    """A context in which a policy is asked; `tell_failed` is called where it raises an error."""

    def __init__(self, tell_failed: Callable[[], object]) -> None:
        self._tell_failed = tell_failed

    def __enter__(self) -> None:
        """Nothing is to be prepared."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell of an error, which goes on."""
        if isinstance(error, Exception):
            self._tell_failed()
