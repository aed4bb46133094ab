"""Who is still there: every node is asked again and again, and answers in time or is lost.

A dead process is told by Ray as soon as its connection breaks. One that is stopped, or a machine
that is cut off, tells nothing: it is lost when it has been silent for `silence` seconds, however
long it may take a request. Requests have a deadline of their own beside it (a kernel that never
ends answers all questions); who looks at that is called at every beat.

A driver that is itself held up (a machine with more to do than cores, a virtual one that is paused)
has not heard anybody, which is no node's fault. So silence is counted in beats: one that comes late
counts as `_LATE` beats, however late it is. (Lifeguard, arXiv 1707.00788, doubts itself likewise.)
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

# A beat counts as no more silence than so many times the seconds between two.
_LATE = 2.0


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
        self._asked: dict[str, Any] = {}
        self._silent: dict[str, float] = {}
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
        before = time.monotonic()
        while not self._end.wait(self._beat):
            before, elapsed = (now := time.monotonic()), now - before
            try:
                for name, actor in list(self._nodes.items()):
                    self._look(name, actor, count_silence(elapsed, self._beat))
                self._each()
            except Exception:  # whoever waits for a lost node would wait for ever
                if self._end.is_set():
                    return
                logging.getLogger(__name__).exception("a beat of the cluster's watch failed")

    def _look(self, name: str, actor: Any, seconds: float) -> None:
        answer = self._asked.get(name)
        if answer is not None and not answer.done():
            self._silent[name] += seconds
            if self._silent[name] > self._silence:
                self._tell(name, f"it has not answered for {self._silence:g} s")
            return
        if answer is not None and answer.exception() is not None:
            self._tell(name, _first_line(answer.exception()))
            return
        self._asked[name], self._silent[name] = self._ask(actor), 0.0

    def _tell(self, name: str, reason: str) -> None:
        self.forget(name)
        self._lost(name, reason)


def silence_of(answer: Future[Any], beat: float, silence: float) -> str | None:
    """Wait for a node's answer: None, or why the node is lost."""
    silent = 0.0
    while silent <= silence:
        begin = time.monotonic()
        try:
            answer.result(beat)
            return None
        except FutureTimeout:
            silent += count_silence(time.monotonic() - begin, beat)
        except Exception as error:  # whatever Ray says of one that is gone
            return _first_line(error)
    return f"it has not answered for {silence:g} s"


def count_silence(elapsed: float, beat: float) -> float:
    """Seconds of silence that count, of those since the last beat."""
    return min(elapsed, _LATE * beat)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
