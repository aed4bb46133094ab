"""What a log says of a long step, where no terminal renews a line: its phase, and the time left.

A phase is named on stderr once it has taken `FIRST` seconds, and again each time it has taken
`FURTHER` times as long: what is quick has no line, and an hour half a dozen.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tvm_hetero.util.untrusted_names import printable

FIRST = 2.0
FURTHER = 4.0
_PATIENCE = 1.0


@dataclass
class RunningPhase:
    """What is worked on: since when (s), for how long at most, and how many parts are done.

    `due` is when it is named next.
    """

    text: str
    began: float
    most: float | None = None
    done: int = 0
    total: int = 0
    due: float = 0.0

    def __post_init__(self) -> None:
        self.due = self.began + FIRST

    def line(self, now: float, usual: float | None) -> str:
        """Its line; `usual` is what it took the last time (s)."""
        elapsed = now - self.began
        parts = f"{self.done}/{self.total}, " if self.total else ""
        said = [f"{parts}{elapsed:.0f} s", self._left(elapsed, usual)]
        return f"     ({printable(self.text, limit=None)}: {', '.join(filter(None, said))})"

    def _left(self, elapsed: float, usual: float | None) -> str:
        if self.total:
            left = elapsed / self.done * (self.total - self.done) if self.done else None
            return "" if left is None else f"about {left:.0f} s left"
        return words_left(elapsed, self.most, usual)


def words_left(elapsed: float, most: float | None, usual: float | None) -> str:
    """How much time is left of what has no parts: by its limit, else by the last time (s)."""
    if most is not None:
        return f"at most {max(0.0, most - elapsed):.0f} s left"
    if usual is None:
        return ""
    if elapsed > usual:
        return f"{usual:.0f} s the last time"
    return f"about {usual - elapsed:.0f} s left"


class PhaseLog:
    """Says what a step is at, from a thread of its own, until `end`.

    Parameters
    ----------
    text, most : the step's title and how many seconds it may take, where it has a limit.
    usual : asked, when it is needed, for the seconds that the step took the last time.
    say : prints a line.
    """

    def __init__(
        self,
        text: str,
        most: float | None,
        usual: Callable[[], float | None],
        say: Callable[[str], None],
    ) -> None:
        self.has_spoken = False
        self._usual, self._say = usual, say
        self._title, self._phase = text, RunningPhase(text, time.monotonic(), most)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="phase log", daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads are allowed: nothing is said
            self._thread.start()

    def begin(self, text: str, most: float | None = None) -> None:
        """The next phase of the step, whose parts are not known (yet); no new one if it is this."""
        if self._phase.text != text or self._phase.total:
            self._phase = RunningPhase(text, time.monotonic(), most)

    def progress(self, text: str, done: int, total: int) -> None:
        """Some parts of a phase are done; one of another text is the next phase."""
        self._phase = (
            self._phase if self._phase.text == text else RunningPhase(text, time.monotonic())
        )
        self._phase.done, self._phase.total = done, total

    def end(self) -> None:
        """Say nothing from now on."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE)  # who reads stderr may not

    def _watch(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            # A phase may follow long before the one before it is due again: look now and then.
            while not self._ended.wait(min(FIRST, max(0.0, self._phase.due - time.monotonic()))):
                phase, now = self._phase, time.monotonic()
                if now < phase.due:
                    continue
                while phase.due <= now:
                    phase.due = phase.began + FURTHER * (phase.due - phase.began)
                self.has_spoken = True
                self._say(phase.line(now, self._usual() if phase.text == self._title else None))
