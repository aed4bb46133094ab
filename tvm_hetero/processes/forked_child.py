"""The child's side of `forked_call`: limits first, then the work, then the answer.

The answer is a file in memory: sections of bytes, each from a multiple of `ALIGNMENT` on; then JSON
that says how large they are, or what was raised instead; the length of that; and a word by which
the reader knows that nothing is missing.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import mmap
import os
import resource
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from tvm_hetero.errors import HeteroError
from tvm_hetero.processes.parent_death import die_with_parent
from tvm_hetero.processes.signals import SIGNALS
from tvm_hetero.processes.step_notes import StepPage, keep_notes

Section: TypeAlias = bytes | memoryview

ALIGNMENT = 64
LAST_WORD = b"tvm_hetero answer"
OUT_OF_MEMORY = 77
"""Exit status of who ran out of memory."""

_TEXT_LIMIT = 1 << 20  # of an error's message
# Whoever handles them in the parent: here they end the process.
_DEADLY = ("SIGTERM", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGXFSZ")


@dataclass(frozen=True)
class ChildLimits:
    """What a forked child may use.

    Attributes
    ----------
    memory : bytes of address space beyond what the calling process has.
    step_seconds : CPU time of each step; thirty times as much if it waits.
    total_seconds : CPU time in all; wall time is limited to ten times as much.
    answer : bytes that it may write.
    """

    memory: int
    step_seconds: float
    total_seconds: float
    answer: int


def be_child(
    function: Callable[[], Sequence[Section]], limits: ChildLimits, page: StepPage, answer: int
) -> NoReturn:
    """Compute, answer and end, without a look at anything that the parent has to clean up."""
    status = 1
    try:
        _restrict(limits, page)
        _write_answer(answer, _outcome(function))
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    finally:
        os._exit(status)


def _restrict(limits: ChildLimits, page: StepPage) -> None:
    # First of all: what comes then may wait for a lock that another thread held as we were forked.
    keep_notes(page, limits.step_seconds)
    die_with_parent()
    # What the parent made is never collected here: a finalizer would end the parent's workers.
    gc.freeze()
    faulthandler.disable()
    _handle_signals()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    seconds = max(1, int(limits.total_seconds))
    _lower(resource.RLIMIT_AS, _address_space() + limits.memory)
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_FSIZE, limits.answer)
    _lower(resource.RLIMIT_CORE, 0)


def _handle_signals() -> None:
    """Leave them to the kernel, and take those that the parent has kept from us (`forked_call`)."""
    signal.set_wakeup_fd(-1)  # the parent's
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, and ends this process
    for name in _DEADLY:
        signal.signal(signal.Signals[name], signal.SIG_DFL)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _lower(limit: int, value: int) -> None:
    """Set a limit of this process, unless it is narrower already."""
    soft, hard = resource.getrlimit(limit)
    narrower = [given for given in (soft, hard) if given != resource.RLIM_INFINITY]
    resource.setrlimit(limit, (min([value, *narrower]), hard))


def _address_space() -> int:
    """Bytes that this process has mapped."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * mmap.PAGESIZE


def _outcome(function: Callable[[], Sequence[Section]]) -> tuple[dict[str, str], Sequence[Section]]:
    try:
        return {}, function()
    except MemoryError:
        raise
    except HeteroError as error:
        return {"error": type(error).__name__, "text": str(error)[:_TEXT_LIMIT]}, []
    except Exception as error:
        return {"fault": f"{type(error).__name__}: {str(error)[:4096]}"}, []


def _write_answer(answer: int, outcome: tuple[dict[str, str], Sequence[Section]]) -> None:
    said, sections = outcome
    sizes = [memoryview(section).nbytes for section in sections]
    for section, size in zip(sections, sizes, strict=True):
        _write(answer, section)
        _write(answer, bytes(-size % ALIGNMENT))
    tail = json.dumps({**said, "sizes": sizes}).encode()
    _write(answer, tail + len(tail).to_bytes(8, "little") + LAST_WORD)


def _write(answer: int, section: Section) -> None:
    rest = memoryview(section).cast("B")
    while rest:
        rest = rest[os.write(answer, rest) :]
