"""SIGINT, SIGTERM and SIGHUP end a process of ours in a second, whatever it is doing.

Python runs a handler between two instructions of the main thread. That is too late where the thread
waits for a solver in C++, never where the signal came just before it fell asleep in a lock, and too
early inside a callback of TVM's: what a callback raises there goes through C++ that expects nothing
(``std::terminate``, a trial that counts as failed). So two listen:

    the handler     raises `Interrupted` in the main thread, but not inside of TVM, nor of a
                    finalizer, which would swallow it, nor of an import: what libraries do as they
                    load makes another error of it (NumPy's "failed to import")
    the watch       a thread that hears of the signal at once, through Python's wakeup file. It
                    sends the signal again until the handler has raised, and when `PATIENCE` is over
                    and the process still there, it ends it

Either way the end is `SignalWatch.leave`: children are ended, temporary files and folders
(`tvm_hetero.util.leftovers`) removed, and the status is 128 + the number of the signal. A second
signal ends the process at once. Results appear whole or not at all since each is renamed into its
place (`tvm_hetero.util.documents`, `tvm_hetero.util.files`).

It is for processes that are ours alone (the command line), not for a library's.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from tvm_hetero.processes.descendants import end_descendants
from tvm_hetero.util.leftovers import remove_all

# What shells expect of a process that Ctrl-C ended.
INTERRUPTED = 128 + signal.SIGINT
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds that the main thread has to end by itself.
PATIENCE = 0.5
# Between two times that the signal is sent again, s.
_AGAIN = 0.05
# Packages whose C++ calls Python back, and what imports.
_DEAF = ("tvm", "tvm_ffi", "importlib")


class Interrupted(KeyboardInterrupt):
    """A signal asked us to end."""


class SignalWatch:
    """What listens to signals; made by `make_watch`.

    Attributes
    ----------
    number : of the first signal that came; 0 before that.
    main : the main thread.
    last_words : gives what is said on stderr where the watch ends the process.
    """

    def __init__(self) -> None:
        self.number = 0
        self.last_words: Callable[[], str] = lambda: "interrupted\n"
        self._is_raised = False
        self._is_over = False
        self._resent = 0
        self._end = 0.0
        self.main = threading.get_ident()
        self._reader, self._writer = map(_above_standard, os.pipe())
        os.set_blocking(self._writer, False)
        self._leaving = threading.Lock()

    def begin(self) -> None:
        """Let signals end this process from now on."""
        find_temporary_folder()
        sys.unraisablehook = self._without_ours(sys.unraisablehook)
        threading.Thread(target=self._listen, name="tvm_hetero signals", daemon=True).start()
        # The interpreter ends with defaults, by which one that came then would be the status. What
        # is registered first is called last.
        atexit.register(_ignore_signals)
        self.take()

    def take(self) -> None:
        """Handle the signals that are not ignored."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def end(self) -> None:
        """Leave the signals to their defaults: in a fork's child, whose parent they do not mean."""
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            if signal.getsignal(number) == self._handle:
                is_int = number == signal.SIGINT
                signal.signal(number, signal.default_int_handler if is_int else signal.SIG_DFL)

    def finish(self) -> bool:
        """All is done; whether a signal came before that.

        One that comes later interrupts nothing, and ends what hangs.
        """
        self._is_over = True
        return bool(self.number)

    def allow(self, seconds: float) -> None:
        """Let the main thread, which has heard, take longer for its last results."""
        self._end = time.monotonic() + seconds

    def leave(self, words: str = "", status: int = 0) -> NoReturn:
        """End the process now, with the signal's status, or this if none came; one thread does."""
        if not self._leaving.acquire(blocking=False):
            threading.Event().wait()  # another one does
        _write(words)
        end_descendants()
        remove_all()
        os._exit(128 + self.number if self.number else status)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number
        if self._is_raised or self._is_over or _is_deaf(frame):
            return
        self._is_raised = True
        raise Interrupted

    def _without_ours(self, hook: Any) -> Any:
        """What was swallowed is no news, and raised again (`_resend`)."""

        def tell(unraisable: Any) -> None:
            if isinstance(unraisable.exc_value, Interrupted):
                self._is_raised = False
            elif not self.number:  # else it is of the end: Ray's handler raises SystemExit
                hook(unraisable)

        return tell

    def _listen(self) -> None:
        while (first := os.read(self._reader, 1)[0]) not in SIGNALS:
            continue  # of another handler, some library's
        self.number = self.number or first
        self.allow(PATIENCE)
        while (left := self._end - time.monotonic()) > 0 and not self._hears_another(left):
            self._resend()
        self.leave(self.last_words())

    def _hears_another(self, left: float) -> bool:
        """Wait a moment; whether a signal came that we did not send."""
        if not select.select([self._reader], [], [], min(left, _AGAIN))[0]:
            return False
        count = sum(number in SIGNALS for number in os.read(self._reader, 4096))
        resent, self._resent = self._resent, max(self._resent - count, 0)
        return count > resent

    def _resend(self) -> None:
        if self._is_raised or self._is_over:
            return
        self._resent += 1
        with contextlib.suppress(ProcessLookupError):
            signal.pthread_kill(self.main, self.number)


_WATCH: list[SignalWatch] = []


def make_watch() -> SignalWatch:
    """That of this process, which takes no signal before it begins; for the main thread, once."""
    watch = SignalWatch()
    _WATCH.append(watch)
    os.register_at_fork(after_in_child=watch.end)
    return watch


def the_watch() -> SignalWatch | None:
    """That of this process; None in one that is not ours alone."""
    return _WATCH[0] if _WATCH else None


def find_temporary_folder() -> None:
    """Let `tempfile` find its folder, by a file that it writes there: now, while no signal comes.

    It has no name of ours, and a process that ends at that moment leaves it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        with contextlib.suppress(OSError):  # whoever needs one says that there is none
            tempfile.gettempdir()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def take_signals_back() -> None:
    """After a library has put its handlers in the place of ours."""
    if (watch := the_watch()) is not None and threading.get_ident() == watch.main:
        watch.take()


def _above_standard(descriptor: int) -> int:
    """The same under a number that is no standard stream's: a shell may have closed those."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return moved


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _is_deaf(frame: FrameType | None) -> bool:
    """Whether what is raised in a frame would become another error, or be lost."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in _DEAF or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _write(words: str) -> None:
    """To stderr, unless who reads it has stopped reading: that may not keep us."""
    with contextlib.suppress(OSError, ValueError):
        if words and select.select([], [2], [], 0)[1]:
            os.write(2, words.encode())
