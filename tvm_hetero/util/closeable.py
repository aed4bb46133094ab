"""What is closed at the end of a ``with``: executors, decoders, clusters."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closeable:
    """Has a `close`, which the end of a ``with`` calls."""

    def close(self) -> None:
        """Free what is held; more than once does no harm."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()
