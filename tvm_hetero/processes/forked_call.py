"""Call a function in a forked child, which may crash, hang or ask for all the memory there is.

The child has all that this process has in memory, so nothing is handed in and nothing imported
again: it costs some milliseconds. What it makes comes back as bytes, through a file in memory.
Limits are the kernel's: address space beyond what there is already, CPU time of each step
(`step_notes`), CPU time and written bytes in all.

Of the threads of this process the child has only the one that calls. A lock that another one holds
at that moment stays locked in it for ever. Such a child waits and computes nothing; it is ended,
and the call made once more.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import warnings
from collections.abc import Callable, Sequence
from itertools import islice

from tvm_hetero import errors
from tvm_hetero.errors import HeteroError
from tvm_hetero.processes.child_process import SIGNAL_MEANINGS
from tvm_hetero.processes.forked_child import (
    ALIGNMENT,
    LAST_WORD,
    OUT_OF_MEMORY,
    ChildLimits,
    Section,
    be_child,
)
from tvm_hetero.processes.signals import SIGNALS
from tvm_hetero.processes.step_notes import PATIENCE, StepNote, StepPage
from tvm_hetero.util.private_mapping import map_privately

# Wall time that a child has in all, in its CPU time.
_WAITS = 10.0
# A child that waits: what the kernel ends it with, and what one that never began is told to have.
_WAITED = "SIGALRM"


class ChildLost(Exception):
    """The child did not live to answer; the text says why, as in "it crashed with SIGSEGV".

    Attributes
    ----------
    note : StepNote
        What it was at.
    signal : str
        The name of the signal that ended it, or ''.
    """

    def __init__(self, reason: str, note: StepNote, signal_name: str = "") -> None:
        super().__init__(reason)
        self.note, self.signal = note, signal_name


class ChildFault(Exception):
    """The function raised what is no error of this package: its class and text."""


def call_in_fork(function: Callable[[], Sequence[Section]], limits: ChildLimits) -> list[Section]:
    """Return what a function makes, computed by a forked child.

    Parameters
    ----------
    function : callable
        Without parameters; returns sections of bytes.
    limits : ChildLimits
        What the child may use.

    Returns
    -------
    list of memoryview
        The sections, in memory that is given back with the last of them.

    Raises
    ------
    HeteroError
        As the function raised it (class and text).
    ChildFault
        The function raised something else.
    ChildLost
        The child crashed, ran out of memory or took too long.
    """
    try:
        return _call_once(function, limits)
    except ChildLost as lost:
        if lost.signal != _WAITED:
            raise
    return _call_once(function, limits)


def _call_once(function: Callable[[], Sequence[Section]], limits: ChildLimits) -> list[Section]:
    page, answer = StepPage(), -1
    children: list[int] = []  # the child, until it is reaped
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # asked for; nothing is changed yet
    try:
        answer = os.memfd_create("tvm_hetero_answer", os.MFD_CLOEXEC)
        # Until the child has its own handlers, and we are about to wait for it: it would run ours.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        _fork(children)
        if children == [0]:
            be_child(function, limits, page, answer)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # what came meanwhile is raised here
        status = _wait(children, limits, page)
        if status:
            raise _lost(status, limits, page.read())
        return _read_answer(answer, page.read())
    finally:
        # A signal that another thread took may be raised anywhere above, in the child, too.
        if children == [0]:
            os._exit(1)
        if children:
            _end(children.pop())
        if answer >= 0:
            os.close(answer)
        page.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _fork(children: list[int]) -> None:
    """Fork, and note the child; 0 in the child itself.

    There is no instruction between the fork and the note at which a signal could be raised.
    """
    with warnings.catch_warnings():
        # Python 3.12 warns of threads; see above.
        warnings.simplefilter("ignore", DeprecationWarning)
        children.extend(islice(iter(os.fork, None), 1))


def _wait(children: list[int], limits: ChildLimits, page: StepPage) -> int:
    """Wait for the end of the only child, which is reaped; returns its exit status.

    Raises
    ------
    ChildLost
        If it takes too long in all: it is still there.
    """
    ended = -1
    try:
        ended = os.pidfd_open(children[0])
        late = _wait_until_late(ended, limits, page)
    except ProcessLookupError:  # it is reaped already
        children.clear()
        return 0
    finally:
        if ended >= 0:
            os.close(ended)
    if late is not None:
        raise late
    return _reap(children.pop())


def _wait_until_late(ended: int, limits: ChildLimits, page: StepPage) -> ChildLost | None:
    """Wait for what is readable when the child has ended; what to say where it is too late."""
    first, whole = PATIENCE * limits.step_seconds, _WAITS * limits.total_seconds
    if select.select([ended], [], [], first)[0]:
        return None
    # Its clock does not run before its first note, and hooks of others may hang in a fork's child.
    if not page.has_note():
        return ChildLost(_too_long(first), page.read(), _WAITED)
    if select.select([ended], [], [], max(0.0, whole - first))[0]:
        return None
    return ChildLost(_too_long(whole), page.read())


def _end(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # as below
        os.kill(child, signal.SIGKILL)
    _reap(child)


def _reap(child: int) -> int:
    # Who reaps all children of the process may have had this one; its answer says the rest.
    with contextlib.suppress(ChildProcessError):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 0


def _lost(status: int, limits: ChildLimits, note: StepNote) -> ChildLost:
    if status == OUT_OF_MEMORY:
        return ChildLost(f"it wanted more than {limits.memory >> 20} MiB of memory", note)
    if status > 0:
        return ChildLost(f"it ended with status {status}", note)
    name = signal.Signals(-status).name
    times = {
        "SIGPROF": limits.step_seconds,
        _WAITED: PATIENCE * limits.step_seconds,
        "SIGXCPU": limits.total_seconds,
    }
    if name in times:
        return ChildLost(_too_long(times[name]), note, name)
    if name == "SIGXFSZ":
        return ChildLost(f"it makes more than {limits.answer >> 20} MiB", note, name)
    meaning = f" ({SIGNAL_MEANINGS[name]})" if name in SIGNAL_MEANINGS else ""
    return ChildLost(f"it crashed with {name}{meaning}", note, name)


def _too_long(seconds: float) -> str:
    return f"it did not end within {float(f'{seconds:.3g}'):g} s"


def _read_answer(answer: int, note: StepNote) -> list[Section]:
    """Return the sections that the child has written, or raise what it has raised."""
    size = os.fstat(answer).st_size
    if size < len(LAST_WORD) + 8:
        raise ChildLost("it gave no answer", note)
    whole = map_privately(answer, size)
    end = size - len(LAST_WORD) - 8
    length = int.from_bytes(whole[end : end + 8], "little")
    if bytes(whole[end + 8 :]) != LAST_WORD or length > end:
        raise ChildLost("it gave no whole answer", note)
    try:
        said = json.loads(bytes(whole[end - length : end]))
    except ValueError:
        raise ChildLost("its answer is damaged", note) from None
    if "error" in said:
        raise getattr(errors, said["error"], HeteroError)(said["text"])
    if "fault" in said:
        raise ChildFault(said["fault"])
    return _cut(whole, said["sizes"])


def _cut(whole: memoryview, sizes: Sequence[int]) -> list[Section]:
    sections: list[Section] = []
    start = 0
    for size in sizes:
        sections.append(whole[start : start + size])
        start += size + -size % ALIGNMENT
    return sections
