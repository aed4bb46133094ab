"""Ctrl-C, and time that is long up, while a solver works: what is known is the answer.

Python hears of a signal between two instructions of the main thread, and there are none while that
thread waits for HiGHS or CP-SAT. So someone else listens: the signal arrives at a socket at once,
and a second thread (`_Listener`) does what is to be done:

    Ctrl-C          searches are told to stop (`util.search_clock`); the main thread goes on as when
                    the time is up, and has a moment for that
    a moment later  a third thread gives the answer in its place, and ends the process
    Ctrl-C again    the process ends at once, whatever is given
    the time is up, and the main thread has not ended by `latest`: the third thread answers

Who reads the answer may be slow, and the second thread goes on listening meanwhile. Other signals
are left to the watch of the process (`processes.signals`). Use it around work that writes nothing,
since nothing is cleaned up.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from tvm_hetero.cli.shared.console import complain
from tvm_hetero.errors import HeteroError
from tvm_hetero.processes.descendants import end_descendants
from tvm_hetero.processes.signals import INTERRUPTED, Interrupted, the_watch
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
    with status 130, or 0 where only the time was up; with an error's where `give` raises one.

    Parameters
    ----------
    give : shows what is known so far.
    latest : the moment (of `time.monotonic`) after which the main thread is waited for no longer,
        where the process is the command's alone (`processes.signals.the_watch`).

    Raises
    ------
    Interrupted
        If a signal came before: what is sent again would be heard as Ctrl-C.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # signals are the main thread's
        return
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        listener = _Listener(reader, interruption, give, latest if the_watch() else None)
        try:
            with writer, _signals_at(writer) as others:
                if _is_ending():
                    raise Interrupted
                listener.begin(others)
                try:
                    yield interruption
                finally:
                    interruption.answering.acquire()
        finally:
            listener.finish()  # it has read that the writer is closed


@contextmanager
def _signals_at(writer: socket.socket) -> Iterator[int]:
    """Let signals arrive at a socket, and Ctrl-C raise nothing; gives where they did before."""
    handler = signal.getsignal(signal.SIGINT)
    # In this order: what the watch has heard at its own wakeup file its handler has heard too.
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        # Other handlers would raise, and what was found so far would be lost.
        signal.signal(signal.SIGINT, _leave_to_listener)
        yield before
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, handler)


def show_cursor() -> str:
    """What shows it again on a terminal on which a moving line has hidden it."""
    return "\x1b[?25h" if sys.stdout is not None and sys.stdout.isatty() else ""


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
    ) -> None:
        super().__init__(daemon=True)
        self._others = -1  # where signals that are not ours are heard
        self._reader, self._interruption = reader, interruption
        self._give, self._latest = give, latest
        self._stdout = os.dup(1)

    def begin(self, others: int) -> None:
        """Listen; what is not meant for us is passed on to these (a file, or -1)."""
        self._others = others
        self.start()

    def finish(self) -> None:
        """After the block, which may not have begun."""
        if self.ident is not None:
            self.join()
            allow_searches()
        os.close(self._stdout)

    def run(self) -> None:
        """Listen until the block is over."""
        while True:
            left = None if self._latest is None else max(0.0, self._latest - time.monotonic())
            heard, _, _ = select.select([self._reader], [], [], left)
            if not heard:
                if self._latest is not None and time.monotonic() >= self._latest:
                    self._answer()
            elif not (numbers := self._reader.recv(1)):
                return
            elif numbers[0] == signal.SIGINT and not _is_ending():
                self._interrupt()
            elif self._others >= 0:
                with suppress(BlockingIOError):  # it has more than enough
                    os.write(self._others, numbers)

    def _interrupt(self) -> None:
        if self._interruption.happened:
            _end(INTERRUPTED)
        self._interruption.happened = True
        moment = time.monotonic() + _PATIENCE
        self._latest = moment if self._latest is None else min(self._latest, moment)
        stop_searches()

    def _answer(self) -> None:
        """Let the answer that is known be given, unless it is being given."""
        self._latest = time.monotonic() + _AGAIN
        if self._interruption.answering.acquire(blocking=False):
            try:
                threading.Thread(target=self._give_and_end, daemon=True).start()
            except RuntimeError:  # no more threads now: it is asked again in a moment
                self._interruption.answering.release()

    def _give_and_end(self) -> None:
        """Give the answer, and end the process; where there is none, let the block go on."""
        interrupted = self._interruption.happened
        try:
            os.dup2(self._stdout, 1)  # a solver that is chatty may have turned it elsewhere
            given = self._give(interrupted)
        except BrokenPipeError:  # who reads it has enough
            given = True
        except BaseException as error:  # whatever it is, the block waits for this thread
            _end(_explain(error))
        if given or interrupted:
            _end(INTERRUPTED if interrupted else 0)
        self._interruption.answering.release()


def _is_ending() -> bool:
    """Whether the watch of this process has heard a signal, and ends the process."""
    watch = the_watch()
    return watch is not None and bool(watch.number)


def _explain(error: BaseException) -> int:
    """Say why the answer was not given, as `cli.main` does; returns the exit status."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        return error.code or 0
    with suppress(Exception):  # nobody reads that either; the process ends all the same
        if isinstance(error, HeteroError):
            complain("error", error)
        elif isinstance(error, OSError):
            complain("error", f"the output cannot be written: {error.strerror}")
        else:
            traceback.print_exception(error)
    return error.exit_status if isinstance(error, HeteroError) else 1


def _end(status: int) -> NoReturn:
    """End the process and its children, and leave no temporary files."""
    if (watch := the_watch()) is not None:
        watch.leave(status=status)
    end_descendants()
    remove_all()
    os._exit(status)
