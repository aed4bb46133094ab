"""The executor's threads: they overlap, are pinned, sleep when idle, and end well."""

from __future__ import annotations

import gc
import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm

from tests.executor.native_plans import (
    PlanBuilder,
    chain,
    diamond,
    run_python,
    tensor,
)
from tests.waiting import eventually
from tvm_hetero.errors import RunError

# -------------------------------------------------------------------------------- threads


def test_two_workers_really_overlap() -> None:
    builder = PlanBuilder(workers=2)
    meeting = threading.Barrier(2)

    def meet(x: Any) -> Any:
        meeting.wait(30)  # returns only if the other worker is inside its step as well
        return x

    x = builder.input()
    [a] = builder.call([x], worker=0, function=meet)
    [b] = builder.call([x], worker=1, function=meet)
    executor = builder.output(a, "a").output(b, "b").create()
    executor.set_input("x", tensor(1, 2))
    for _ in range(20):
        executor.run()
        (start_a, end_a), (start_b, end_b) = executor.trace()
        assert max(start_a, start_b) < min(end_a, end_b)


def test_the_trace_keeps_the_order_of_data_and_workers() -> None:
    executor = diamond(3).create()
    assert all(math.isnan(time) for span in executor.trace() for time in span)
    executor.set_input("x", tensor(1, 2))
    seconds = executor.run()
    top, left, right, bottom = executor.trace()
    assert all(0 <= start <= end <= seconds for start, end in (top, left, right, bottom))
    assert top[1] <= min(left[0], right[0])
    assert max(left[1], right[1]) <= bottom[0]


def test_workers_are_pinned_and_start_no_threads_of_tvms_pool() -> None:
    cpus = os.cpu_count() or 1
    cores = [[0], [cpus - 1], list(range(cpus))]
    builder = PlanBuilder(workers=3, cores=cores)
    threads = tvm.get_global_func("runtime.NumThreads")
    seen: dict[int, tuple[set[int], int]] = {}

    def look(worker: int) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            seen[worker] = (os.sched_getaffinity(0), threads())
            return x

        return function

    slot = builder.input()
    for worker in range(3):
        [slot] = builder.call([slot], worker=worker, function=look(worker))
    executor = builder.output(slot).create()
    executor.set_input("x", tensor(1, 2))
    executor.run()
    # A worker with several cores sits on the first, its team on the others (test_team.py).
    assert seen == {0: ({0}, 1), 1: ({cpus - 1}, 1), 2: ({0}, 1)}


def thread_status(name: str) -> list[dict[str, str]]:
    """What the kernel says of this process's threads of a name."""
    threads = []
    for task in Path("/proc/self/task").iterdir():
        try:
            text = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        rows = (line.split(":", 1) for line in text.splitlines())
        status = {key: value.strip() for key, value in rows}
        threads += [status] if status["Name"] == name else []
    return threads


def sleeps_on(name: str) -> bool:
    """Whether a thread is not woken once within 0.1 s: it neither polls nor spins."""
    [status] = thread_status(name)
    time.sleep(0.1)
    [later] = thread_status(name)
    both = status["State"], later["State"]
    switches = "voluntary_ctxt_switches"
    return all(each.startswith("S") for each in both) and status[switches] == later[switches]


def test_an_idle_executor_sleeps() -> None:
    builder = chain(4, workers=2)
    for i, row in enumerate(builder.plan["workers"]):
        row.update(name="sleeper", cores=[i % (os.cpu_count() or 1)])
    builder.plan["workers"][1]["name"] = "sleeper2"
    executor = builder.create()
    executor.set_input("x", tensor(1, 2))
    executor.run()
    for name in ("sleeper", "sleeper2"):
        # It spins for a moment first, and on a busy machine that moment may be long.
        assert eventually(lambda name=name: sleeps_on(name))
    executor.run()
    assert executor.filled_slots() == [4]


# -------------------------------------------------------------------------------- the end


def test_the_interpreter_ends_with_executors_in_every_state() -> None:
    code = """
        never_run = diamond(3).create()
        without_functions = create(chain(3).plan)
        idle = chain(5, 2).create()
        idle.set_input("x", tensor(1, 2))
        idle.run()
        failed = PlanBuilder()
        failed.output(failed.call([failed.input()], function=lambda x: 1 // 0)[0])
        failed = failed.create()
        failed.set_input("x", tensor(1, 2))
        try:
            failed.run()
        except Exception as error:
            print(type(error).__name__)
        kept_for_ever = sys.modules["tvm_ffi"].kept = chain(2).create()
        circle = [chain(2).create()]
        circle.append(circle)
        print("end")
        """
    assert run_python(code) == "RunError\nend\n"


def test_the_interpreter_ends_while_a_daemon_thread_is_in_a_run() -> None:
    code = """
        inside = threading.Event()
        x = builder.input()
        def slow(x):
            inside.set(); time.sleep(0.2); return x
        for _ in range(3):
            [x] = builder.call([x], function=slow)
        executor = builder.output(x).create()
        executor.set_input("x", tensor(1, 2))
        threading.Thread(target=executor.run, daemon=True).start()
        inside.wait()
        print("end")
        """
    assert run_python(code, quietly=True) == "end\n"


def test_close_cuts_a_run_short() -> None:
    builder = PlanBuilder(workers=2)
    inside, leave = threading.Event(), threading.Event()

    def wait(x: Any) -> Any:
        inside.set()
        assert leave.wait(30)
        return x

    [a] = builder.call([builder.input()], function=wait)
    [b] = builder.call([a], worker=1)
    executor = builder.output(b).create()
    executor.set_input("x", tensor(1, 2))
    told: list[str] = []

    def run() -> None:
        try:
            executor.run()
        except RunError as error:
            told.append(str(error))

    runner = threading.Thread(target=run)
    runner.start()
    assert inside.wait(30)
    executor.close()
    leave.set()
    runner.join()
    assert told == ["closed: the executor was closed during the run"]
    with pytest.raises(RunError, match="is closed: make a new one"):
        executor.run()


def test_a_fork_says_so_and_ends() -> None:
    code = """
        import os
        executor = chain(3, 2).create()
        executor.set_input("x", tensor(1, 2))
        executor.run()
        child = os.fork()
        if child == 0:
            try:
                executor.run()
            except Exception as error:
                told = "after forking" in str(error)
            del executor
            os._exit(7 if told else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        executor.run()
        """
    assert run_python(code) == "7\n"


def test_executors_come_and_go() -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    chain(3, 3).create()
    gc.collect()
    before = threads()
    for i in range(50):
        executor = chain(3, 3).create()
        if i % 2:
            executor.set_input("x", tensor(1, 2))
            executor.run()
        del executor
    gc.collect()
    assert threads() <= before
