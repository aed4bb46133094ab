"""Functions in forked children: what comes back, and of what they die."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable

import numpy as np
import psutil
import pytest

from tvm_hetero.errors import ModelError
from tvm_hetero.processes import forked_call, forked_child
from tvm_hetero.processes.forked_call import ChildFault, ChildLost, call_in_fork
from tvm_hetero.processes.forked_child import ChildLimits, Section
from tvm_hetero.processes.step_notes import note_step, notes_steps

LIMITS = ChildLimits(memory=1 << 28, step_seconds=0.2, total_seconds=20, answer=1 << 24)


def test_sections_come_back_whole() -> None:
    numbers = np.arange(1000, dtype=np.int32)
    sections: list[Section] = [b"", b"abc", memoryview(numbers), bytes(200_000)]
    found = call_in_fork(lambda: sections, LIMITS)
    assert [bytes(each) for each in found] == [bytes(each) for each in sections]
    # In memory of its own, at places where any type may lie.
    assert np.frombuffer(found[2], np.int32)[7] == 7


def test_what_a_child_changes_stays_in_it() -> None:
    held = [1]

    def work() -> list[Section]:
        held.append(2)
        assert notes_steps()
        return []

    call_in_fork(work, LIMITS)
    assert held == [1] and not notes_steps()


def test_errors_of_ours_come_back_as_they_are() -> None:
    def refuse() -> list[Section]:
        raise ModelError("the model is blue")

    def fail() -> list[Section]:
        raise KeyError("x")

    with pytest.raises(ModelError, match="is blue"):
        call_in_fork(refuse, LIMITS)
    with pytest.raises(ChildFault, match="KeyError: 'x'"):
        call_in_fork(fail, LIMITS)


def _fill() -> None:
    np.ones(1 << 28)


def _crash() -> None:
    ctypes.string_at(0)


def _spin() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("deed", "reason", "signal"),
    [
        (_crash, "SIGSEGV", "SIGSEGV"),
        (os.abort, "it aborted", "SIGABRT"),
        (_spin, r"within 0\.2 s", "SIGPROF"),
        (_fill, "more than 256 MiB of memory", ""),
        (lambda: os._exit(3), "status 3", ""),
        (lambda: os._exit(0), "no answer", ""),
    ],
)
def test_deaths_are_told_with_the_step(deed: Callable[[], None], reason: str, signal: str) -> None:
    def work() -> list[Section]:
        note_step("an earlier step", "node 1")
        note_step("the deed", "node 2")
        deed()
        return []

    others = psutil.Process().children()  # of tests before this one
    with pytest.raises(ChildLost, match=reason) as lost:
        call_in_fork(work, LIMITS)
    assert lost.value.signal == signal
    assert (lost.value.note.phase, lost.value.note.detail) == ("the deed", "node 2")
    assert set(psutil.Process().children()) <= set(others)


def test_an_answer_that_is_too_long_is_refused() -> None:
    with pytest.raises(ChildLost, match="more than 16 MiB"):
        call_in_fork(lambda: [bytes(1 << 25)], LIMITS)


def test_steps_have_time_each() -> None:
    def work() -> list[Section]:
        used = 0
        while used < 10:  # together more than one step may take
            note_step("a step")
            end = time.process_time() + 0.05
            while time.process_time() < end:
                pass
            used += 1
        return []

    assert call_in_fork(work, LIMITS) == []


def test_a_lock_that_another_thread_holds_delays_no_one_for_ever() -> None:
    lock, held, done = threading.Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(20)

    def work() -> list[Section]:
        with lock:
            return []

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(20)
    patient = ChildLimits(memory=1 << 28, step_seconds=0.02, total_seconds=5, answer=1 << 20)
    with pytest.raises(ChildLost, match=r"within 0\.6 s"):
        call_in_fork(work, patient)
    done.set()
    holder.join()
    assert call_in_fork(work, LIMITS) == []


def test_what_waits_before_the_work_begins_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_child, "die_with_parent", lambda: time.sleep(60))
    limits = ChildLimits(memory=1 << 28, step_seconds=0.005, total_seconds=1, answer=1 << 20)
    with pytest.raises(ChildLost, match=r"within 0\.15 s") as lost:
        call_in_fork(list, limits)
    assert lost.value.signal == "SIGALRM"


def _wait_on() -> list[Section]:
    while True:
        note_step("a step")
        time.sleep(0.001)


def test_who_takes_too_long_in_all_is_not_told_to_have_crashed() -> None:
    limits = ChildLimits(memory=1 << 28, step_seconds=0.01, total_seconds=0.05, answer=1 << 20)
    with pytest.raises(ChildLost, match=r"^it did not end within 0\.5 s$"):
        call_in_fork(_wait_on, limits)


def test_a_narrower_soft_limit_stays() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, hard))
    try:
        [found] = call_in_fork(
            lambda: [b"%d" % resource.getrlimit(resource.RLIMIT_FSIZE)[0]], LIMITS
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert int(bytes(found)) == 1 << 22


_SIGNALLED = """
import os, signal, time
from tvm_hetero.processes.forked_call import call_in_fork
from tvm_hetero.processes.forked_child import ChildLimits
limits = ChildLimits(memory=1 << 28, step_seconds=2.0, total_seconds=20, answer=1 << 20)
reader, writer = os.pipe()
for end in (reader, writer):
    os.set_blocking(end, False)
signal.set_wakeup_fd(writer)
signal.signal(signal.SIGINT, signal.default_int_handler)
def press():
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_signal_to_a_new_child_is_not_handled_as_the_parent_does() -> None:
    code = _SIGNALLED + """
os.register_at_fork(after_in_child=press)
assert [bytes(each) for each in call_in_fork(lambda: [b"x"], limits)] == [b"x"]
try:
    raise SystemExit(f"the child has written {os.read(reader, 9)}")
except BlockingIOError:
    print("nothing")
"""  # fmt: skip
    assert _run(code) == "nothing"


def test_ctrl_c_while_it_forks_ends_the_child() -> None:
    code = _SIGNALLED + """
os.register_at_fork(before=press)
try:
    call_in_fork(lambda: time.sleep(60) or [], limits)
except KeyboardInterrupt:
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        print("ended", signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""  # fmt: skip
    assert _run(code) == "ended set()"


def test_a_child_that_never_begins_is_ended() -> None:
    code = _SIGNALLED + """
from dataclasses import replace
from tvm_hetero.processes.forked_call import ChildLost
os.register_at_fork(after_in_child=lambda: time.sleep(60))
try:
    call_in_fork(list, replace(limits, step_seconds=0.005))
except ChildLost as lost:
    print(lost.signal, lost)
"""  # fmt: skip
    assert _run(code) == "SIGALRM it did not end within 0.15 s"


def _run(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize("in_child", [False, True])
def test_a_signal_right_after_the_fork_leaves_no_child_and_no_mask(
    monkeypatch: pytest.MonkeyPatch, in_child: bool
) -> None:
    parent, mask = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    before = psutil.Process().children()

    class Interrupting(warnings.catch_warnings):  # type: ignore[type-arg]
        def __exit__(self, *given: object) -> None:
            super().__exit__(*given)
            if (os.getpid() == parent) is not in_child:
                raise KeyboardInterrupt

    monkeypatch.setattr(forked_call.warnings, "catch_warnings", Interrupting)
    with pytest.raises(ChildLost if in_child else KeyboardInterrupt):
        call_in_fork(lambda: [time.sleep(60) or b""], LIMITS)
    assert psutil.Process().children() == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
