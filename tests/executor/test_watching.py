"""What each step of each request takes while requests come."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.executor.gated import WAIT, vector
from tests.executor.native_plans import PlanBuilder
from tests.executor.switched import CORES, Switched, switched
from tests.waiting import eventually
from tvm_hetero.artifact.executable import SINGLE, Executable
from tvm_hetero.errors import DeadlineError, RunError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.watching import WatchedRequests


def taken(executor: Executor, count: int) -> list[WatchedRequests]:
    """Takes until so many have come: they do a moment behind their outputs."""
    tables: list[WatchedRequests] = []

    def has_come() -> bool:
        tables.append(executor.take_watched())
        return sum(map(len, tables)) >= count

    assert eventually(has_come)
    return [table for table in tables if len(table)]


def test_every_step_of_every_request_is_told_once(executable: Executable) -> None:
    with Executor(executable) as executor:
        inputs = executor.random_inputs()
        executor.run(inputs)
        assert len(executor.take_watched()) == 0  # nobody watches
        executor.watch(100)
        before = time.monotonic()
        for _ in executor.map([inputs] * 20):
            pass
        tables = taken(executor, 20)
        after = time.monotonic()
        assert sum(map(len, tables)) == 20
        for table in tables:
            assert table.starts.shape == (len(table), len(executor.plan.steps))
            assert (before <= table.begun).all() and (table.ended <= after).all()
            assert (table.begun[:, None] <= table.starts).all()
            assert (table.starts <= table.ends).all()
            assert (table.ends <= table.ended[:, None]).all()
            assert (table.waited >= 0).all()
            workers = [step.worker for step in executor.plan.steps]
            assert (table.workers == workers).all()
        begun = np.concatenate([table.begun for table in tables])
        assert (np.diff(begun) >= 0).all()


def test_a_thread_has_its_core_no_longer_than_its_step_takes(executable: Executable) -> None:
    with Executor(executable) as executor:
        executor.watch(100)
        for _ in executor.map([executor.random_inputs()] * 20):
            pass
        for table in taken(executor, 20):
            wall = table.ends - table.starts
            assert (table.on_core > 0).all()
            assert (table.on_core <= wall + 1e-9).all()
            assert (table.in_queue >= 0).all()


def test_of_more_than_there_is_room_for_the_oldest_go(executable: Executable) -> None:
    with Executor(executable) as executor:
        inputs = executor.random_inputs()
        executor.watch(3)
        for _ in range(10):
            executor.run(inputs)
        last = time.monotonic()
        executor.run(inputs)
        [table] = taken(executor, 3)
        assert len(table) == 3
        assert eventually(lambda: True) and table.begun[0] < last
        executor.watch(0)
        executor.run(inputs)
        assert len(executor.take_watched()) == 0
        with pytest.raises(RunError, match="-1 requests"):
            executor.watch(-1)
        executor.switch(SINGLE)  # is not kept from it by what was refused
        assert len(executor.take_watched()) == 0


@pytest.fixture
def waiting(executable: Executable) -> Iterator[Switched]:
    """An executor of a step that uses its core, and one that sleeps."""
    builder = PlanBuilder(2, [[CORES[0]], [CORES[-1]]])
    [used] = builder.call([builder.input()], worker=0, function=_use)
    [slept] = builder.call([used], worker=1, function=_sleep)
    with switched(executable, {"only": builder.output(slept)}) as executor:
        yield executor


def _use(x: Any) -> Any:
    """10 ms of the core, however long it takes to get them."""
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass
    return x


def _sleep(x: Any) -> Any:
    time.sleep(0.01)
    return x


def test_sleeping_is_neither_on_the_core_nor_in_its_queue(waiting: Switched) -> None:
    waiting.watch(10)
    for _ in range(5):
        waiting.run(x=vector(1))
    [table] = taken(waiting, 5)
    assert (table.on_core[:, 0] >= 0.0099).all()
    wall = table.ends[:, 1] - table.starts[:, 1]
    assert (wall >= 0.01).all()
    assert (table.on_core[:, 1] < 0.5 * wall).all()


def test_what_was_skipped_has_no_times(waiting: Switched) -> None:
    waiting.watch(10)
    with pytest.raises(DeadlineError):
        waiting.run(x=vector(1), deadline=0.001)
    [table] = taken(waiting, 1)
    assert np.isnan(table.starts[0, 1]) and np.isnan(table.on_core[0, 1])
    assert table.workers[0, 1] == -1


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not tell")
def test_another_process_on_the_core_shows_as_time_in_its_queue(waiting: Switched) -> None:
    """Not by how much: by a larger part of the step's time than without."""

    def part_in_queue() -> float:
        waiting.watch(20)
        for _ in range(12):
            waiting.run(x=vector(1))
        tables = taken(waiting, 12)
        queued = sum(float(table.in_queue[:, 0].sum()) for table in tables)
        used = sum(float(table.on_core[:, 0].sum()) for table in tables)
        return queued / used

    def contended() -> float:
        code = f"import os; os.sched_setaffinity(0, [{CORES[0]}]); print(flush=True)\nwhile 1: pass"
        others = [
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)
        ]
        try:
            for other in others:
                assert other.stdout is not None and other.stdout.readline()
            return part_in_queue()
        finally:
            for other in others:
                other.kill()
                other.communicate(timeout=WAIT)

    # A neighbour of the whole machine that comes or goes between the two may hide it, once.
    assert any(part_in_queue() < contended() for _ in range(5))


def test_a_fork_or_a_restart_of_a_worker_reads_its_own_times(waiting: Switched) -> None:
    from tests.executor.test_native_faults import inject

    inject("worker", 1)
    with pytest.raises(RunError, match="died"):
        waiting.run(x=vector(1))
    inject("worker", 0)
    waiting.watch(10)
    waiting.run(x=vector(1))
    [table] = taken(waiting, 1)
    assert table.on_core[0, 0] >= 0.0099
    assert table.in_queue[0, 0] >= 0
