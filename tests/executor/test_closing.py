"""Callbacks of requests, and the end of an executor: closed, forgotten, with the interpreter."""

from __future__ import annotations

import concurrent.futures
import gc
import os
import pickle
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.executor.gated import WAIT, Gated, result, vector
from tests.executor.native_plans import run_python
from tests.executor.threads import in_threads
from tests.models import branchy_inputs
from tests.waiting import eventually
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.executor.executor import Executor

# -------------------------------------------------------------------------------- callbacks


def test_a_callback_that_submits_again(free: Executor) -> None:
    ends: list[float] = []
    over = threading.Event()

    def again(pending: Any) -> None:
        ends.append(result(pending.result()))
        if len(ends) == 40:
            over.set()
        else:
            free.submit(x=vector(len(ends))).add_done_callback(again)

    free.submit(x=vector(0)).add_done_callback(again)
    assert over.wait(WAIT)
    assert ends == [2 * i + 1 for i in range(40)]


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_callback_that_fails_keeps_no_other_from_its_result(
    held: Gated, error: type[BaseException]
) -> None:
    executor, gate = held

    def fail(_: Any) -> None:
        raise error("in a callback")

    first, second = (executor.submit(x=vector(i)) for i in (1, 2))
    first.add_done_callback(fail)
    gate.open.set()
    assert result(second.result(WAIT)) == 5
    assert result(first.result(WAIT)) == 3
    assert result(executor.submit(x=vector(3)).result(WAIT)) == 7


def test_each_callback_is_called_once_also_when_cancelled(held: Gated) -> None:
    executor, gate = held
    calls: list[Any] = []
    pending = [executor.submit(x=vector(i)) for i in range(executor.depth)]
    for each in pending:
        each.add_done_callback(calls.append)
    assert pending[0].cancel()
    gate.open.set()
    concurrent.futures.wait(pending, WAIT)
    assert eventually(lambda: len(calls) == len(pending))
    assert set(map(id, calls)) == set(map(id, pending))


# -------------------------------------------------------------------------------- the end


def test_closing_in_the_middle_ends_every_request(held: Gated) -> None:
    executor, gate = held
    pending = [executor.submit(x=vector(i)) for i in range(executor.depth)]
    gate.wait_inside()
    executor.close()  # the step still runs
    for each in pending:
        with pytest.raises(RunError, match="closed"):
            each.result(WAIT)
    for use in (executor.run, executor.submit):
        with pytest.raises(RunError):
            use(x=vector(1))


def test_closing_while_threads_run_and_submit(held: Gated) -> None:
    executor, gate = held
    ends: list[BaseException | None] = []

    def use(number: int) -> None:
        if number == 0:
            gate.wait_inside()
            executor.close()
            gate.open.set()
            return
        with pytest.raises(RunError, match="closed"):
            if number % 2:
                executor.run(x=vector(number))
            else:
                executor.submit(x=vector(number)).result(WAIT)
        ends.append(None)

    in_threads(9, use)
    assert len(ends) == 8


def test_a_callback_may_close_the_executor(held: Gated) -> None:
    executor, gate = held
    pending = executor.submit(x=vector(1))
    closed = threading.Event()
    pending.add_done_callback(lambda _: (executor.close(), closed.set()))
    gate.open.set()
    assert closed.wait(WAIT)
    assert result(pending.result(WAIT)) == 3


def completing() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "tvm_hetero completions"]


def test_the_completing_thread_is_there_only_while_it_is_needed(executable: Executable) -> None:
    inputs = dict(zip(("in/x", "y"), branchy_inputs(), strict=True))
    before = set(completing())
    executor = Executor(executable)
    executor.run(inputs)
    assert set(completing()) == before
    executor.submit(inputs).result(WAIT)
    [thread] = set(completing()) - before
    executor.close()
    assert not thread.is_alive()


def test_who_forgets_to_close_leaves_nothing_behind(executable: Executable) -> None:
    inputs = dict(zip(("in/x", "y"), branchy_inputs(), strict=True))
    before = set(completing())
    executor = Executor(executable)
    pending = executor.submit(inputs)
    kept = weakref.ref(executor)
    del executor
    assert len(pending.result(WAIT)) == 2  # a request keeps its executor
    assert eventually(lambda: gc.collect() >= 0 and kept() is None)
    assert eventually(lambda: set(completing()) <= before)


def test_the_interpreter_ends_with_requests_in_every_state(
    executable: Executable, tmp_path: Path
) -> None:
    executable.save(tmp_path / "net.hetero")
    code = f"""
        import tvm_hetero
        path = {str(tmp_path / "net.hetero")!r}
        idle, busy, closed, mapped = (tvm_hetero.load(path) for _ in range(4))
        inputs = idle.random_inputs()
        idle.submit(inputs).result()
        closed.submit(inputs).add_done_callback(lambda _: closed.close())
        outputs = mapped.map([inputs] * 50)
        next(outputs)
        def work():
            while True:
                busy.run(inputs)
        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        def again(pending):
            busy.submit(inputs).add_done_callback(again)
        again(None)
        time.sleep(0.05)
        print("end")
        """
    assert run_python(code) == "end\n"


def test_the_interpreter_ends_with_threads_that_do_not_give_up(
    executable: Executable, tmp_path: Path
) -> None:
    executable.save(tmp_path / "net.hetero")
    code = f"""
        import logging
        import tvm_hetero
        sys.setswitchinterval(1e-6)
        logging.disable()
        executors = [tvm_hetero.load({str(tmp_path / "net.hetero")!r}) for _ in range(12)]
        inputs = executors[0].random_inputs()
        def work(busy):
            while True:
                try:
                    busy.run(inputs)
                except Exception:
                    pass
        def submit(busy):
            busy.submit(inputs).add_done_callback(lambda _: submit(busy))
        for executor in executors:
            threading.Thread(target=work, args=(executor,), daemon=True).start()
            submit(executor)
        time.sleep(0.03)
        print("end")
        """
    for _ in range(3):
        assert run_python(code) == "end\n"


def test_a_fork_is_refused_and_takes_nothing_from_its_parent(free: Executor) -> None:
    pending = free.submit(x=vector(1))
    assert result(pending.result(WAIT)) == 3
    child = os.fork()
    if child == 0:
        try:
            free.submit(x=vector(2))
        except RunError as error:
            os._exit(0 if "not in this fork" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert result(free.submit(x=vector(3)).result(WAIT)) == 7


def test_an_executor_is_not_pickled(free: Executor) -> None:
    with pytest.raises(UsageError, match="path of its artifact"):
        pickle.dumps(free)
