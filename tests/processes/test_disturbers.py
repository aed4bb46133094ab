"""Programs that disturb: they do take what they are to take, and are gone when they should be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_hetero.errors import ProfileError, UsageError
from tvm_hetero.platform.host import available_cores
from tvm_hetero.processes import disturbance
from tvm_hetero.processes.disturbers import disturb, last_level_cache

CORE = max(available_cores())
SCRIPT = str(Path(disturbance.__file__))


def on_core(pid: int) -> tuple[float, float]:
    """Seconds that a process has had its core, and has waited for it."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait for something that happens soon on an idle machine."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("kind", disturbance.KINDS)
def test_it_wants_its_core_all_the_time_and_no_other(kind: str) -> None:
    with disturb(kind, CORE, 60.0) as pid:
        assert os.sched_getaffinity(pid) == {CORE}
        before, start = sum(on_core(pid)), time.monotonic()

        def is_never_asleep() -> bool:
            """Whatever else runs here: it had the core or waited for it."""
            busy, wall = sum(on_core(pid)) - before, time.monotonic() - start
            return wall > 0.3 and busy > 0.8 * wall

        # Linux counts a wait when it ends, and beside many others one takes a while.
        assert until(is_never_asleep)
    assert not is_running(pid)


def test_a_thread_on_the_same_core_has_to_wait() -> None:
    code = (
        "import os, time\n"
        f"os.sched_setaffinity(0, {{{CORE}}})\n"
        "end = time.monotonic() + 0.4\n"
        "while time.monotonic() < end: pass\n"
        "print(open('/proc/self/schedstat').read())"
    )
    with disturb("busy", CORE, 60.0):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    ran, waited, _ = (int(number) for number in done.stdout.split())
    assert waited > 0.25 * ran


def test_it_has_an_ordinary_priority_and_a_deadline_of_the_kernel() -> None:
    with disturb("thrash", CORE, 60.0) as pid:
        assert os.sched_getscheduler(pid) == os.SCHED_OTHER
    with subprocess.Popen([sys.executable, "-I", "-S", SCRIPT, "busy", str(CORE), "0.05"],
                          stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.wait(30) == -signal.SIGALRM


def test_what_ended_too_early_has_disturbed_nothing() -> None:
    with pytest.raises(ProfileError, match=r"'busy' on core .* was over"):
        with disturb("busy", CORE, 0.2) as pid:
            assert until(lambda: not is_running(pid))


def test_it_ends_when_its_parent_is_killed() -> None:
    code = (
        "import sys, time\n"
        "from tvm_hetero.processes.disturbers import disturb\n"
        f"with disturb('busy', {CORE}, 60.0) as pid:\n"
        "    print(pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.send_signal(signal.SIGKILL)
    assert until(lambda: not is_running(pid))


def test_it_ends_when_the_block_fails() -> None:
    with pytest.raises(KeyError):
        with disturb("stream", CORE, 60.0) as pid:
            raise KeyError
    assert not is_running(pid)


@pytest.mark.parametrize(
    ("kind", "core", "message"),
    [("buzy", CORE, "no disturbance 'buzy'; did you mean 'busy'"), ("busy", 9999, "core 9999 is")],
)
def test_what_cannot_be_started_is_refused(kind: str, core: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        with disturb(kind, core):
            pass


def test_it_can_be_started_by_hand_and_says_how() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "noise"], capture_output=True, check=False)
    assert done.returncode == 2 and b"busy|stream|thrash CORE SECONDS" in done.stderr


def test_the_size_of_the_last_level_cache_is_read(tmp_path: Path) -> None:
    for index, size in enumerate(("48K", "32K", "1024K", "32M")):
        folder = tmp_path / f"sys/devices/system/cpu/cpu3/cache/index{index}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{size}\n")
    assert last_level_cache(3, tmp_path) == 32 << 20
    assert last_level_cache(4, tmp_path) == disturbance.DEFAULT_CACHE
