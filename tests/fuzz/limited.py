"""A call in a forked child, with limits: what came of it, whatever that is.

A refusal by one of our errors is an answer, if its text may be shown. All else is a fault: another
exception, a signal, no end in time, memory beyond the limit.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import NamedTuple

from tvm_hetero.errors import LIST_LINE, HeteroError

TAKEN, REFUSED, FAULT = "taken", "refused", "fault"
SECONDS, BYTES = 20.0, 1 << 30
# Who works on for its seconds of a core has no end; who waits, for so many times as long. On a busy
# machine, or on one that somebody halts, a clock alone tells nothing.
_WAITING = 12.0
# Longer texts are no help to anybody.
_LONGEST = 4000


class Verdict(NamedTuple):
    """What a call did: one of `TAKEN`, `REFUSED`, `FAULT`, and the text of its error."""

    status: str
    told: str


def judge(call: Callable[[], object], seconds: float = SECONDS, size: int = BYTES) -> Verdict:
    """Call in a child that may have so many seconds of a core, and so many bytes more than we."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            _limit(seconds, size)
            os.write(writing, json.dumps(_answer(call)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        raw = pipe.read()
    _, state = os.waitpid(child, 0)
    if os.WIFSIGNALED(state):
        number = os.WTERMSIG(state)
        ended = number in (signal.SIGALRM, signal.SIGPROF)
        why = "no end" if ended else signal.Signals(number).name
        return Verdict(FAULT, why)
    return Verdict(*json.loads(raw)) if raw else Verdict(FAULT, "no answer")


def _limit(seconds: float, size: int) -> None:
    """An alarm ends even native code that never comes back."""
    gc.freeze()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, _WAITING * seconds)
    with open("/proc/self/statm", encoding="ascii") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + size,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(call: Callable[[], object]) -> tuple[str, str]:
    try:
        call()
    except HeteroError as error:
        text = str(error)
        shown = all(line.isprintable() for line in text.split(LIST_LINE))
        return (REFUSED if shown and text and len(text) < _LONGEST else FAULT), text[:_LONGEST]
    except BaseException:  # a panic of Rust is no Exception
        return FAULT, traceback.format_exc()[-_LONGEST:]
    return TAKEN, ""
