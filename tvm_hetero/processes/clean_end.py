"""A child that is asked to end (SIGTERM) removes its temporary files first, whatever it is doing.

A handler of Python's runs when the main thread is back in the interpreter, and LLVM may take
seconds. So a thread waits for the number that the interpreter's own handler writes into a pipe.
Who asks waits for a moment and then kills (`child_process`, `descendants`): that is for a child
that holds the interpreter's lock.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import NoReturn

from tvm_hetero.processes.descendants import end_descendants
from tvm_hetero.processes.signals import find_temporary_folder
from tvm_hetero.util.leftovers import remove_all


def end_cleanly_on_term() -> None:
    """Wait for SIGTERM from now on; to be called by the main thread, once."""
    find_temporary_folder()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    # A fork's child has not the thread, and its end is not ours.
    os.register_at_fork(after_in_child=_leave_to_the_kernel)
    threading.Thread(target=_wait, args=(reader,), name="tvm_hetero end", daemon=True).start()


def _leave_to_the_kernel() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _wait(reader: int) -> NoReturn:
    while os.read(reader, 1)[0] != signal.SIGTERM:
        continue  # another signal's
    remove_all()  # first: whoever asked kills soon
    end_descendants()
    remove_all()  # what they wrote meanwhile
    os._exit(128 + signal.SIGTERM)
