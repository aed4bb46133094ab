"""Signals end a process of ours with their status, whatever its main thread is doing."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import LIMIT, eventually

ROOT = Path(__file__).parents[2]
_PRELUDE = f"""
import os, signal, subprocess, sys, threading, time, weakref
sys.path.insert(0, {str(ROOT)!r})
from tvm_hetero.processes import signals
from tvm_hetero.util.leftovers import make_folder
watch = signals.make_watch()
def say(word): print(word, flush=True)
def until(condition):
    while not condition(): time.sleep(0.002)
try:
    watch.begin()
"""
_END = """
except KeyboardInterrupt:
    say("heard")
is_interrupted = watch.finish()
if is_interrupted:
    watch.leave()
"""


def run(body: str, number: int = signal.SIGTERM, again: bool = False) -> tuple[int, list[str], str]:
    """Start a process, send it a signal when it says "ready"; its status, words and errors."""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    with subprocess.Popen(
        [sys.executable, "-c", _PRELUDE + indented + _END],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            if again:
                assert process.stdout.readline() == "first\n"
                process.send_signal(number)
            out, err = process.communicate(timeout=LIMIT)
        finally:
            process.kill()  # or one that does not end would be waited for without end
    return process.returncode, out.split(), err


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_the_main_thread_ends_by_itself_where_it_listens(number: int, status: int) -> None:
    body = """
try:
    say("ready")
    threading.Event().wait()
finally:
    say("finally")
"""
    assert run(body, number) == (status, ["finally", "heard"], "")


def test_what_does_not_end_is_ended_with_its_children_and_files(tmp_path: Path) -> None:
    body = f"""
folder = make_folder("left.", {str(tmp_path)!r})
(folder / "file").touch()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
while True:
    try:
        say("ready")
        time.sleep(1000)
    except KeyboardInterrupt:
        say(child.pid)
"""
    status, words, err = run(body)
    assert (status, err) == (143, "interrupted\n")
    words.remove("ready")  # once more
    assert list(tmp_path.iterdir()) == []
    stat = Path(f"/proc/{words[0]}/stat")
    assert eventually(lambda: not stat.exists() or ") Z " in stat.read_text())


def test_nothing_is_raised_inside_of_what_makes_something_else_of_it() -> None:
    body = """
def native():
    say("ready")
    until(lambda: watch.number)
    time.sleep(0.1)
    say("through")
exec(compile("def call(function): function()", "x", "exec"), made := {"__name__": "tvm.transform"})
try:
    made["call"](native)
    time.sleep(1000)
except KeyboardInterrupt:
    say("after")
"""
    assert run(body) == (143, ["through", "after"], "")


@pytest.mark.parametrize("way", ["finalizer", "callback"])
def test_what_is_swallowed_is_raised_again(way: str) -> None:
    body = f"""
class Thing:
    def __del__(self):
        if {way!r} == "finalizer":
            wait()
def wait(*_):
    say("ready")
    until(lambda: watch.number)
    time.sleep(0.05)
thing = Thing()
if {way!r} == "callback":
    kept = weakref.ref(thing, wait)
del thing
time.sleep(1000)
"""
    assert run(body, signal.SIGINT) == (130, ["heard"], "")


def test_a_second_signal_ends_what_is_given_time() -> None:
    body = """
try:
    say("ready")
    time.sleep(1000)
except KeyboardInterrupt:
    watch.allow(1000)
    say("first")
    time.sleep(1000)
"""
    assert run(body, signal.SIGINT, again=True) == (130, [], "interrupted\n")


def test_a_signal_after_the_end_changes_no_status() -> None:
    body = """
watch.finish()
say("ready")
until(lambda: watch.number)
sys.exit(7)
"""
    assert run(body)[0] == 7


def test_what_was_ignored_stays_ignored_and_a_fork_has_defaults() -> None:
    code = _PRELUDE.replace("try:", "signal.signal(signal.SIGHUP, signal.SIG_IGN)\ntry:") + """
    signal.raise_signal(signal.SIGHUP)
    child = os.fork()
    if child == 0:
        signal.raise_signal(signal.SIGTERM)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
    assert not watch.number
    say("on")
""" + _END  # fmt: skip
    # Of forks beside threads Python warns since 3.12; this one computes nothing before it ends.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


def test_a_signal_waits_until_the_folder_for_temporary_files_is_found(tmp_path: Path) -> None:
    code = f"""
import os, signal, tempfile
from pathlib import Path
from tvm_hetero.processes.signals import find_temporary_folder
def find():
    probe = Path({str(tmp_path)!r}, "probe")
    probe.touch()
    os.kill(os.getpid(), signal.SIGTERM)
    probe.unlink()
tempfile.gettempdir = find
find_temporary_folder()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert list(tmp_path.iterdir()) == []
