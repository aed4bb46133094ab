"""Who is still there: every node is asked again and again, and answers in time or is lost.

A dead process is told by Ray as soon as its connection breaks. One that is stopped, or a machine
that is cut off, tells nothing: it is lost when it has been silent for `silence` seconds, however
long it may take a request. Requests have a deadline of their own beside it (a kernel that never
ends answers all questions); who looks at that is called at every beat.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any


class Watch:
    """A thread that asks actors whether they are there.

    Parameters
    ----------
    ask : sends the question to a node; gives a future of the answer.
    lost : is called once for each node that is lost, with the reason.
    each : is called at every beat.
    beat : seconds between two questions; silence : seconds after which a node is lost.
    """

    def __init__(
        self,
        nodes: Mapping[str, Any],
        ask: Callable[[Any], Any],
        lost: Callable[[str, str], None],
        each: Callable[[], None],
        beat: float,
        silence: float,
    ) -> None:
        self._nodes = dict(nodes)
        self._ask, self._lost, self._each = ask, lost, each
        self._beat, self._silence = beat, silence
        self._asked: dict[str, tuple[float, Any]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tvm_hetero watch", daemon=True)
        self._thread.start()

    def remember(self, node: str, actor: Any) -> None:
        """Ask a node from now on."""
        self._asked.pop(node, None)
        self._nodes[node] = actor

    def forget(self, node: str) -> None:
        """Ask a node no more."""
        self._nodes.pop(node, None)

    def close(self) -> None:
        """End the thread."""
        self._end.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(10.0)

    def _run(self) -> None:
        while not self._end.wait(self._beat):
            try:
                for name, actor in list(self._nodes.items()):
                    self._look(name, actor)
                self._each()
            except Exception:  # whoever waits for a lost node would wait for ever
                if self._end.is_set():
                    return
                logging.getLogger(__name__).exception("a beat of the cluster's watch failed")

    def _look(self, name: str, actor: Any) -> None:
        now = time.monotonic()
        since, answer = self._asked.get(name, (now, None))
        if answer is not None and not answer.done():
            if now - since > self._silence:
                self._tell(name, f"it has not answered for {self._silence:g} s")
            return
        if answer is not None and answer.exception() is not None:
            self._tell(name, _first_line(answer.exception()))
            return
        self._asked[name] = now, self._ask(actor)

    def _tell(self, name: str, reason: str) -> None:
        self.forget(name)
        self._lost(name, reason)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
