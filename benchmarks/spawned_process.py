"""A fresh process that answers over a pipe, for what must not share one with us."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from tvm_hetero.util.closeable import Closeable


class SpawnedProcess(Closeable):
    """Runs ``serve(pipe, *arguments)`` in a process that has nothing of this one.

    `pipe` is our end. The process is ended with us, whatever it is doing then.
    """

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()  # so that its end is seen here

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
