"""Ctrl-C while a solver works in C++ for minutes.

Python hears of a signal between two instructions of the main thread, and there are none while that
thread waits for HiGHS or CP-SAT. So someone else listens: the signal arrives at a socket at once,
a second thread gives the main thread a moment to end by itself, and then ends the process. Use it
around work that writes nothing, since nothing is cleaned up.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# What shells expect of a process that Ctrl-C ended.
INTERRUPTED = 130
# Seconds that the main thread has to hear of the signal itself.
_PATIENCE = 0.5


@contextmanager
def interruptible(say: Callable[[], None]) -> Iterator[None]:
    """While the block runs, Ctrl-C ends it or, where it does not listen, the process.

    `say` is called before the process is ended from outside.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    done = threading.Event()
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(reader, done, say), daemon=True)
    listener.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        writer.close()  # the listener reads the end
        listener.join()
        reader.close()


def _listen(reader: socket.socket, done: threading.Event, say: Callable[[], None]) -> None:
    while numbers := reader.recv(1):
        if numbers[0] == signal.SIGINT and not done.wait(_PATIENCE):
            say()
            os._exit(INTERRUPTED)
