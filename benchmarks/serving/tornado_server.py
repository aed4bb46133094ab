"""Tornado alone: a handler that takes a body and answers bytes that it has; what HTTP itself costs.

python tornado_server.py PORT BYTES

On the loop that ``tvm-hetero serve`` takes: uvloop where it is.
"""

from __future__ import annotations

import asyncio
import sys

from tornado.web import Application, RequestHandler

from tvm_hetero.cli.verbs.serve import event_loop


class Hello(RequestHandler):
    """Answers any body with the same bytes."""

    def initialize(self, answer: bytes) -> None:
        """Called by tornado."""
        self._answer = answer

    def get(self) -> None:
        """It is ready."""
        self.finish()

    def post(self) -> None:
        """Whatever came."""
        self.finish(self._answer)


async def serve(port: int, size: int) -> int:
    """Until it is ended."""
    given = {"answer": bytes(size)}
    Application([(r"/.*", Hello, given)], log_function=lambda _: None).listen(port, "127.0.0.1")
    await asyncio.Event().wait()
    return 0


if __name__ == "__main__":
    event_loop()(serve(int(sys.argv[1]), int(sys.argv[2])))
