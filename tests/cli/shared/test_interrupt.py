"""What is given when Ctrl-C comes, or the time is long up, while a block does not end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.descriptors import open_descriptors
from tests.waiting import LIMIT
from tvm_hetero.cli.shared.interrupt import interruptible

# Pressed: in the block, so often, each time when the one before has been heard. The block goes on
# for `end` s, or until searches are stopped (`listens`), or until something is given (`outlives`).
_PROGRAM = """
import os, signal, sys, threading, time
from tvm_hetero.cli.shared import interrupt
from tvm_hetero.processes.signals import make_watch, the_watch
from tvm_hetero.util.search_clock import is_stopped
interrupt._PATIENCE = {patience}
if {ours}:
    make_watch().begin()
inside, given = threading.Event(), threading.Event()
def press():
    inside.wait()
    for number in range({presses}):
        while number and not is_stopped():
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)
def give(interrupted):
    print("given", interrupted, flush=True)
    given.set()
    {giving}
    return {known}
threading.Thread(target=press, daemon=True).start()
latest = {latest}
latest = None if latest is None else time.monotonic() + latest
end = time.monotonic() + {end}
with interrupt.interruptible(give, latest) as interruption:
    inside.set()
    while time.monotonic() < end and not ({listens} and is_stopped()):
        if {outlives} and given.is_set():
            break
        time.sleep(0.005)
print("ended", interruption.happened, is_stopped())
"""


def run(
    presses: int, *, listens: bool = False, outlives: bool = False, known: bool = True,
    end: float = 60.0, patience: float = 0.05, latest: float | None = None, ours: bool = True,
    giving: str = "pass", says: str = "",
) -> tuple[int, str]:  # fmt: skip
    """Exit status and output of a block; `says` is what it says on stderr."""
    code = _PROGRAM.format(
        presses=presses,
        listens=listens,
        outlives=outlives,
        known=known,
        end=end,
        patience=patience,
        latest=latest,
        ours=ours,
        giving=giving,
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.stderr == says
    return done.returncode, done.stdout.strip()


def test_a_block_that_ends_when_searches_stop_is_left_alone() -> None:
    assert run(1, listens=True, patience=60.0) == (0, "ended True False")


@pytest.mark.parametrize("known", [True, False])
def test_for_a_block_that_does_not_listen_what_is_known_is_given(known: bool) -> None:
    assert run(1, known=known) == (130, "given True")


def test_who_presses_twice_gets_nothing() -> None:
    assert run(2, patience=60.0) == (130, "")


def test_when_the_time_is_long_up_what_is_known_is_given() -> None:
    assert run(0, latest=0.02) == (0, "given False")


def test_a_process_of_others_is_not_ended() -> None:
    assert run(0, latest=0.02, end=0.1, ours=False) == (0, "ended False False")


def test_where_nothing_is_known_the_block_goes_on() -> None:
    found = run(0, latest=0.02, known=False, outlives=True)
    assert found == (0, "given False\nended False False")


def test_a_block_that_ends_in_time_gives_its_own_answer() -> None:
    assert run(0, latest=60.0, end=0.0) == (0, "ended False False")


@pytest.mark.parametrize("presses", [1, 0])
@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        ("OSError(28, 'No space left')", 1, "the output cannot be written: No space left"),
        ("__import__('tvm_hetero').errors.FormatError('disk full')", 2, "disk full"),
    ],
)
def test_an_answer_that_cannot_be_given_is_an_error(
    presses: int, error: str, status: int, says: str
) -> None:
    latest = None if presses else 0.02
    found = run(presses, latest=latest, giving=f"raise {error}", says=f"error: {says}\n")
    assert found == (status, f"given {bool(presses)}")


@pytest.mark.parametrize(
    ("ending", "status"), [("SystemExit(3)", 3), ("SystemExit", 0), ("KeyboardInterrupt", 130)]
)
def test_what_ends_programs_ends_this_one(ending: str, status: int) -> None:
    assert run(0, latest=0.02, giving=f"raise {ending}") == (status, "given False")


def test_who_reads_no_further_has_the_answer() -> None:
    assert run(0, latest=0.02, giving="raise BrokenPipeError") == (0, "given False")


def test_while_the_answer_is_read_slowly_signals_are_heard() -> None:
    press = "os.kill(os.getpid(), signal.{0}); time.sleep(1000)"
    assert run(1, giving=press.format("SIGINT")) == (130, "given True")
    found = run(0, latest=0.02, giving=press.format("SIGTERM"), says="interrupted\n")
    assert found == (143, "given False")


def test_a_signal_on_its_way_decides_the_status() -> None:
    giving = "the_watch().number = signal.SIGTERM"
    assert run(0, latest=0.02, giving=giving) == (143, "given False")


def test_a_block_is_not_begun_after_a_signal() -> None:
    code = _PROGRAM.format(
        presses=0, listens=False, outlives=False, known=True, end=0.0, patience=60, latest=None,
        ours=True, giving="pass",
    ).replace("end =", "the_watch().number = signal.SIGINT\nend =")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("tvm_hetero.processes.signals.Interrupted\n")
    assert not done.stdout


@pytest.mark.parametrize("owner", ["signal.signal", "os.dup", "threading.Thread.start"])
def test_a_block_that_cannot_be_begun_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no more of those")

    signal.set_wakeup_fd(before := signal.set_wakeup_fd(-1))
    handler, opened = signal.getsignal(signal.SIGINT), open_descriptors()
    with monkeypatch.context() as changed, pytest.raises(OSError, match="no more of those"):
        changed.setattr(owner, fail)
        with interruptible(lambda _: False):
            pytest.fail("it began")
    assert open_descriptors() <= opened
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.set_wakeup_fd(before) == before


def test_without_another_thread_the_answer_is_given_later() -> None:
    giving = "threading.Thread.start = was"
    lacking = """
def lack(self):
    threading.Thread.start = was
    raise RuntimeError("can't start new thread")
was = threading.Thread.start
with interrupt.interruptible(give, latest) as interruption:
    threading.Thread.start = lack
"""
    code = _PROGRAM.format(
        presses=0, listens=False, outlives=False, known=True, end=60.0, patience=60, latest=0.02,
        ours=True, giving=giving,
    )  # fmt: skip
    code = code.replace("\nwith interrupt.interruptible(give, latest) as interruption:\n", lacking)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "given False\n", "")
