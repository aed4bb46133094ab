"""benchmarks/limits.py: what counts as kept, a call with its answer, and a sample of the zoo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import limits
from benchmarks.limit_keeping.timed_call import exec_call, preload, seen_late
from benchmarks.limit_keeping.zoo_cases import all_cases, sample_cases
from benchmarks.scheduling.memory import limited
from benchmarks.scheduling.runner import zoo_case
from tvm_hetero import zoo


@pytest.mark.parametrize(
    ("seconds", "limit", "kept"),
    [(1.9, 1.0, True), (2.1, 1.0, False), (65.9, 60.0, True), (66.1, 60.0, False)],
)
def test_kept_is_within_a_tenth_or_a_second(seconds: float, limit: float, kept: bool) -> None:
    assert limits.is_kept(seconds, limit) == kept


def test_a_call_by_the_processor_s_clock_has_its_answer_and_why_it_stopped(tmp_path: Path) -> None:
    problem = limited(zoo_case("layered", "sched-nvl", tasks=60), 0.5)
    row = exec_call(problem, 0.3, preload(tmp_path))
    # That clock does not go on while others are at work, so this holds on any machine.
    assert row["seconds"] == pytest.approx(row["cpu_seconds"], abs=0.02)
    assert row["kept"], json.dumps(row)
    assert 0 <= row["gap"] < 1
    assert row["why"][0].startswith("stopped: ")


def test_who_waits_by_the_processor_s_clock_waits(tmp_path: Path) -> None:
    """The real clock is ahead; a wait that ended at once kept threads busy that wait for a lock."""
    code = """
import ctypes, threading, time
ctypes.CDLL(None).use_processor_clock()
real, count = lambda: time.clock_gettime(time.CLOCK_TAI), 0
time.sleep(0.2)
until, lock, condition = real() + 0.2, threading.Lock(), threading.Condition()
lock.acquire()
while real() < until:
    with condition:
        condition.wait(0.02)
    lock.acquire(timeout=0.02)
    time.sleep(0.02)
    count += 1
print(count)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=preload(tmp_path), capture_output=True, text=True, check=True
    )
    assert 1 <= int(done.stdout) <= 4


def test_who_was_at_work_after_the_limit(tmp_path: Path) -> None:
    look = "Current thread 0x01 (most recent call first):\n"
    frame = '  File "/x/tvm_hetero/bounds/loads.py", line 3 in {}\n'
    library = '  File "/x/scipy/_linprog.py", line 3 in linprog\n'
    (tmp_path / "places").write_text(
        look + library + frame.format("load_of") + look + frame.format("load_of") + look + library
    )
    assert seen_late(tmp_path / "places") == {"late_in": "loads.load_of", "late_seen": 0.15}


def test_the_zoo_s_cases_are_all_there_and_a_seed_is_a_sample() -> None:
    names = {case.name for case in all_cases()}
    assert len(names) == len(all_cases()) == len(zoo.names()) * len(zoo.platform_names()) * 8
    assert sample_cases(5, 1) == sample_cases(5, 1) != sample_cases(5, 2)
    made = sample_cases(1, 3)[0]
    assert made.problem().objective.batch == made.batch
