"""The end in the middle of a switch: closed, forgotten, interrupted, forked, the interpreter's."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.executor.gated import WAIT, result, vector
from tests.executor.native_plans import run_module, run_python
from tests.executor.switched import CORES, two_plans
from tests.executor.threads import in_threads
from tests.waiting import eventually, is_asleep
from tvm_hetero.artifact.executable import SINGLE, Executable
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.executor.executor import Executor


def test_closing_ends_what_both_plans_have_in_flight(executable: Executable) -> None:
    one, other = [CORES[0]], [CORES[-1]]
    with two_plans(executable, [one, other], [one]) as two:
        first = two.executor.submit(x=vector(1))
        two.old.wait_inside()
        two.executor.switch("new")
        second = two.executor.submit(x=vector(2))
        again = threading.Thread(target=lambda: _refused(two.executor), daemon=True)
        again.start()
        assert eventually(lambda: is_asleep(again))
        two.executor.close()  # the old plan's step still runs
        for each in (first, second):
            with pytest.raises(RunError, match="closed"):
                each.result(WAIT)
        two.old.open.set()
        again.join(WAIT)
        assert not again.is_alive()
        for use in (two.executor.run, two.executor.submit):
            with pytest.raises(RunError, match="closed"):
                use(x=vector(1))
        assert two.new.seen == []


def _refused(executor: Executor) -> None:
    with pytest.raises(RunError, match="closed"):
        executor.switch("old")


def test_a_plan_that_comes_while_all_is_closed_is_closed_too(executable: Executable) -> None:
    for pause in (0.0, 0.001, 0.003, 0.01):
        executor = Executor(executable)

        def use(number: int, executor: Executor = executor, pause: float = pause) -> None:
            if number == 0:
                time.sleep(pause)
                executor.close()
                return
            with pytest.raises(RunError, match="closed"):
                while True:
                    if number == 1:
                        executor.switch(SINGLE)
                    else:
                        executor.run(executor.random_inputs())

        in_threads(3, use)
        with pytest.raises(RunError, match="closed"):
            executor.run(executor.random_inputs())


def test_closing_waits_for_callbacks_of_a_plan_that_is_through(executable: Executable) -> None:
    with two_plans(executable) as two:
        entered, over = threading.Event(), threading.Event()
        ends: list[str] = []

        def slow(_: object) -> None:
            entered.set()
            assert over.wait(WAIT)
            ends.append("callback")

        two.executor.submit(x=vector(1)).add_done_callback(slow)
        two.old.open.set()  # now: of a request that is through, the callback would be ours to call
        assert entered.wait(WAIT)
        two.executor.switch("new")
        two.executor.await_drained()
        closing = threading.Thread(target=lambda: (two.executor.close(), ends.append("closed")))
        closing.start()
        assert eventually(lambda: is_asleep(closing))
        over.set()
        closing.join(WAIT)
        assert ends == ["callback", "closed"]


def test_who_forgets_an_executor_in_a_switch_leaves_nothing_behind(
    executable: Executable,
) -> None:
    before = len(list(Path("/proc/self/task").iterdir()))
    with two_plans(executable) as two:
        two.old.open.set()
        executor = two.executor
    del two
    executor.close()
    for _ in range(2):
        executor = Executor(executable)
        executor.submit(executor.random_inputs())
        executor.switch(SINGLE)
        natives = [weakref.ref(active.native) for active in executor._plans._plans()]
        del executor
        for native in natives:
            assert eventually(lambda native=native: gc.collect() >= 0 and native() is None)
    assert eventually(lambda: len(list(Path("/proc/self/task").iterdir())) <= before)


@pytest.fixture(scope="module")
def interrupted(executable: Executable, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process told that pressed Ctrl-C: a late signal ends that one, not the tests."""
    path = tmp_path_factory.mktemp("interrupted") / "net.hetero"
    executable.save(path)
    return json.loads(run_module("tests.executor.interrupted_switches", str(path)))


def test_ctrl_c_while_a_switch_waits_leaves_all_as_it_was(interrupted: dict[str, Any]) -> None:
    for name in ("drained", "switch"):
        assert interrupted[name] == [False, "new", 5.0]
    assert interrupted["after"] == [3.0, 7.0]


def test_ctrl_c_at_any_moment_of_a_switch_leaves_a_plan_that_runs(
    interrupted: dict[str, Any],
) -> None:
    assert interrupted["heard"] == interrupted["pressed"] == 40
    assert interrupted["results"] == [2.0 * number + 1 for number in range(40)]
    assert sorted(interrupted["seen"]) == list(range(40))


def test_a_switch_in_a_handler_of_a_switch_is_refused(executable: Executable) -> None:
    with two_plans(executable) as two:
        two.executor.submit(x=vector(1))
        two.old.wait_inside()
        two.executor.switch("new")
        errors: list[str] = []

        def handle(*_: object) -> None:
            try:
                two.executor.switch("new")
            except UsageError as error:
                errors.append(str(error))
            two.old.open.set()

        kept = signal.signal(signal.SIGUSR1, handle)
        try:
            main = threading.main_thread().ident or 0
            threading.Timer(0.05, signal.pthread_kill, [main, signal.SIGUSR1]).start()
            two.executor.switch("old")
        finally:
            signal.signal(signal.SIGUSR1, kept)
        assert errors == ["a switch from within a switch of the same executor: wait for its end"]
        assert two.executor.variant == "old"


def test_a_fork_is_refused_and_the_parent_goes_on(executable: Executable) -> None:
    with two_plans(executable) as two:
        pending = two.executor.submit(x=vector(1))
        two.old.wait_inside()
        two.executor.switch("new")
        child = os.fork()
        if child == 0:
            try:
                two.executor.switch("old")
            except RunError as error:
                os._exit(0 if "not in this fork" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        two.old.open.set()
        assert result(pending.result(WAIT)) == 3
        two.executor.switch("old")
        assert result(two.executor.run(x=vector(3))) == 7


@pytest.mark.parametrize("way", ["switches", "drains", "holds"])
def test_the_interpreter_may_end_at_any_time(
    executable: Executable, tmp_path: Path, way: str
) -> None:
    executable.save(tmp_path / "net.hetero")
    code = f"""
        import itertools
        import tvm_hetero
        sys.setswitchinterval(1e-6)
        ex = tvm_hetero.load({str(tmp_path / "net.hetero")!r})
        inputs = ex.random_inputs()
        def work():
            while True:
                ex.run(inputs)
        def switch():
            for name in itertools.cycle(("single", "partition")):
                ex.switch(name)
                if {way!r} == "drains":
                    ex.await_drained()
        for body in (work, work, switch):
            threading.Thread(target=body, daemon=True).start()
        ex.submit(inputs)
        if {way!r} == "holds":
            ex.switch("single")
        time.sleep(0.05)
        print("end")
        """
    assert run_python(code, quietly=True) == "end\n"
