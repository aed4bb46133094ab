"""What a process is at: a note in memory that outlives it, and a limit on the time of each step.

A process that may crash or hang writes, before each step, what it is about to do. The note lies in
memory that it shares with its parent, which reads it when the process is gone. Each note begins
the time of the step anew: who computes for longer, or waits for thirty times as long, is ended by
the kernel, also within native code that never returns.

In a process that keeps no notes, `note_step` does nothing.
"""

from __future__ import annotations

import mmap
import signal
from dataclasses import dataclass

_BYTES = 4096
# A step that waits (for a disk, for a core that others use) may take so many times its CPU time.
PATIENCE = 30.0


@dataclass(frozen=True)
class StepNote:
    """What was begun last: the phase, and what of it (a node of a model), each maybe ''."""

    phase: str
    detail: str


class StepPage:
    """Memory for one note, shared with children that are forked while it is open."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _BYTES)

    def write(self, phase: str, detail: str) -> None:
        """Put a note; what does not fit is cut."""
        text = f"{phase}\n{detail}".encode(errors="replace")[: _BYTES - 4]
        self._memory[4 : 4 + len(text)] = text
        self._memory[:4] = len(text).to_bytes(4, "little")

    def read(self) -> StepNote:
        """Return the last note."""
        size = min(int.from_bytes(self._memory[:4], "little"), _BYTES - 4)
        phase, _, detail = self._memory[4 : 4 + size].decode(errors="replace").partition("\n")
        return StepNote(phase, detail)

    def has_note(self) -> bool:
        """Whether there is a note, if an empty one: its writer has come so far."""
        return any(self._memory[:4])

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()


class _Keeping:
    """Where this process notes its steps: nowhere, unless it is a child that was told to."""

    page: StepPage | None = None
    seconds = 0.0


def keep_notes(page: StepPage, seconds: float) -> None:
    """Note the steps of this process from now on, and end it if one of them takes too long.

    Parameters
    ----------
    page : StepPage
        Of the parent.
    seconds : float
        CPU time that a step may take.
    """
    _Keeping.page, _Keeping.seconds = page, seconds
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)  # which ends the process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF, signal.SIGALRM})
    _start_clock()
    page.write("", "")


def notes_steps() -> bool:
    """Whether this process is a child that notes its steps."""
    return _Keeping.page is not None


def note_step(phase: str, detail: str = "") -> None:
    """Say what comes next.

    Parameters
    ----------
    phase : str
        What is done, in words that fit "was ended by ...".
    detail : str
        With what.
    """
    if _Keeping.page is not None:
        _Keeping.page.write(phase, detail)
        _start_clock()


def _start_clock() -> None:
    signal.setitimer(signal.ITIMER_PROF, _Keeping.seconds)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE * _Keeping.seconds)
