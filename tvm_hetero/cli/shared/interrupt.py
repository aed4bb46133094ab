"""Ctrl-C, and time that is long up, while a solver works: what is known is the answer.

Python hears of a signal between two instructions of the main thread, and there are none while that
thread waits for HiGHS or CP-SAT. So someone else listens: the signal arrives at a socket at once,
and a second thread (`_Listener`) does what is to be done:

    Ctrl-C          searches are told to stop (`util.search_clock`); the main thread goes on as when
                    the time is up, and has a moment for that
    a moment later  the second thread gives the answer in its place, and ends the process
    Ctrl-C again    the process ends at once, and nothing is given
    the time is up, and the main thread has not ended by `latest`: the second thread answers

Use it around work that writes nothing, since nothing is cleaned up.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from tvm_hetero.processes.descendants import end_descendants
from tvm_hetero.processes.signals import INTERRUPTED, the_watch
from tvm_hetero.util.leftovers import remove_all
from tvm_hetero.util.search_clock import allow_searches, stop_searches

# Seconds that the main thread has to end by itself.
_PATIENCE = 0.5
# Seconds after which is asked again where nothing was known.
_AGAIN = 0.1

# Gives the answer that is known (told whether it was interrupted); False if there is none.
Give = Callable[[bool], bool]


class Interruption:
    """What has happened to the block of `interruptible`.

    Attributes
    ----------
    happened : whether Ctrl-C was pressed.
    answering : held by the thread that gives the answer; the process ends before the other one has
        let go of it, unless there was none to give.
    """

    def __init__(self) -> None:
        self.happened = False
        self.answering = threading.Lock()


@contextmanager
def interruptible(give: Give, latest: float | None = None) -> Iterator[Interruption]:
    """While the block runs, Ctrl-C makes searches end with what they have.

    Where the main thread does not end soon, `give` is called by another one, and the process ends:
    with status 130, or 0 where only the time was up.

    Parameters
    ----------
    give : shows what is known so far.
    latest : the moment (of `time.monotonic`) after which the main thread is waited for no longer,
        where the process is the command's alone (`processes.signals.the_watch`).
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # signals are the main thread's
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    # Other handlers would raise, and what was found so far would be lost.
    handler = signal.signal(signal.SIGINT, _leave_to_listener)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    listener = _Listener(reader, interruption, give, latest if the_watch() else None, before)
    listener.start()
    try:
        yield interruption
    finally:
        interruption.answering.acquire()
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, handler)
        writer.close()  # the listener reads the end
        listener.join()
        reader.close()
        allow_searches()


def _leave_to_listener(number: int, frame: Any) -> None:
    """Nothing: the listener has heard of it."""


class _Listener(threading.Thread):
    """The second thread (see the head of this file)."""

    def __init__(
        self,
        reader: socket.socket,
        interruption: Interruption,
        give: Give,
        latest: float | None,
        others: int,
    ) -> None:
        super().__init__(daemon=True)
        self._others = others  # where signals that are not ours are heard
        self._reader, self._interruption = reader, interruption
        self._give, self._latest = give, latest
        self._stdout = os.dup(1)

    def run(self) -> None:
        """Listen until the block is over."""
        while True:
            left = None if self._latest is None else max(0.0, self._latest - time.monotonic())
            heard, _, _ = select.select([self._reader], [], [], left)
            if not heard:
                if self._latest is not None and time.monotonic() >= self._latest:
                    self._answer()
            elif not (numbers := self._reader.recv(1)):
                os.close(self._stdout)
                return
            elif numbers[0] == signal.SIGINT:
                self._interrupt()
            elif self._others >= 0:
                os.write(self._others, numbers)

    def _interrupt(self) -> None:
        if self._interruption.happened:
            _end(INTERRUPTED)
        self._interruption.happened = True
        moment = time.monotonic() + _PATIENCE
        self._latest = moment if self._latest is None else min(self._latest, moment)
        stop_searches()

    def _answer(self) -> None:
        """Give the answer that is known, and end the process; wait on where there is none."""
        self._latest = time.monotonic() + _AGAIN
        interrupted = self._interruption.happened
        if not self._interruption.answering.acquire(blocking=False):
            return
        os.dup2(self._stdout, 1)  # a solver that is chatty may have turned it elsewhere
        given = False
        with suppress(BrokenPipeError):
            given = self._give(interrupted)
        if given or interrupted:
            _end(INTERRUPTED if interrupted else 0)
        self._interruption.answering.release()


def _end(status: int) -> NoReturn:
    """End the process and its children, and leave no temporary files."""
    end_descendants()
    remove_all()
    os._exit(status)
