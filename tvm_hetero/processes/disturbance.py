"""A program that disturbs: it takes a core's time, the memory's bandwidth, or the last-level cache.

    python tvm_hetero/processes/disturbance.py busy|stream|thrash CORE SECONDS [BYTES] [PARENT]

    busy      computes and never rests: who is on the same core has half of it
    stream    copies between two buffers that no cache holds
    thrash    writes to one line after the other of a buffer of BYTES, the size of the last-level
              cache: what others have there is thrown out

It ends by itself, whatever happens to who started it: after SECONDS (the kernel's alarm, which no
loop can miss), and soon after PARENT (default: who started it) is no longer its parent. It has an
ordinary priority, though the one who started it may be a real-time process. When it is at work it
writes one byte. Nothing is imported but what Python has started with, so that it starts in some
milliseconds (`tvm_hetero.processes.disturbers` runs it without `site`).
"""

import os
import signal
import sys

KINDS = ("busy", "stream", "thrash")
# Of a last-level cache of which nothing is known; and of a line of it.
DEFAULT_CACHE, _LINE = 32 << 20, 64
# How many turns of an empty loop come between two looks at the parent: milliseconds.
_TURNS = 200_000


def main(arguments: list[str]) -> int:
    """Disturb until the end."""
    if not 3 <= len(arguments) <= 5 or arguments[0] not in KINDS:
        print(f"expected {'|'.join(KINDS)} CORE SECONDS [BYTES] [PARENT]", file=sys.stderr)
        return 2
    kind, core, seconds = arguments[0], int(arguments[1]), float(arguments[2])
    size = int(arguments[3]) if len(arguments) > 3 else DEFAULT_CACHE
    parent = int(arguments[4]) if len(arguments) > 4 else os.getppid()
    _end_after(seconds)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it, and ends it
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.sched_setaffinity(0, {core})
    {"busy": _busy, "stream": _stream, "thrash": _thrash}[kind](parent, size)
    return 0


def _end_after(seconds: float) -> None:
    """Let the kernel end this process; an alarm that was blocked or ignored is heard again."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _say_ready() -> None:
    os.write(1, b"!")


def _busy(parent: int, size: int) -> None:
    _say_ready()
    while os.getppid() == parent:
        for _ in range(_TURNS):
            pass


def _stream(parent: int, size: int) -> None:
    """Each of the buffers is as large as the cache, so neither stays in it."""
    source, target = (memoryview(bytearray(b"\1") * size) for _ in range(2))
    _say_ready()
    while os.getppid() == parent:
        target[:] = source


def _thrash(parent: int, size: int) -> None:
    buffer = bytearray(b"\1") * size
    ones = bytes(len(range(0, size, _LINE)))
    _say_ready()
    while os.getppid() == parent:
        buffer[::_LINE] = ones


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
