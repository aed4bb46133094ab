"""What may go wrong in a switch goes wrong: the old plan goes on, and nothing is left behind."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.descriptors import open_descriptors
from tests.executor.gated import WAIT, Gate, result, vector
from tests.executor.kernel_plans import SIZE, KernelPlan, aligned, call, view
from tests.executor.native_plans import PlanBuilder
from tests.executor.switched import CORES, built, gated_plan, switched, two_plans
from tests.executor.test_native_faults import KINDS, count, inject
from tests.waiting import eventually
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import PlatformError, RunError
from tvm_hetero.executor.executor import Executor

VALUES = np.arange(SIZE, dtype="float32")


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    for kind in KINDS:
        inject(kind, 0)


def tasks() -> int:
    """How many threads the process has."""
    return len(list(Path("/proc/self/task").iterdir()))


def far_and_near(order: tuple[int, int]) -> PlanBuilder:
    """2x - 2x and 2x, by way of the memory of another device and by functions."""
    plan = PlanBuilder(3, [[CORES[0]], [CORES[-1]], []])
    plan.plan["devices"].append({"name": "far", "dl_type": 1, "dl_id": 1})
    near, copier = order
    x = plan.input()
    [double] = plan.call([x], worker=near, function=lambda x: aligned(2 * x.numpy(), "float64"))
    there = plan.copy(double, worker=copier)
    plan.plan["slots"][there]["device"] = 1
    plan.plan["steps"][-1]["to_device"] = 1
    back = plan.copy(there, worker=copier)
    plan.plan["slots"][back]["device"] = 0
    [out] = plan.call([back, double], worker=near, function=lambda a, b: a)
    return plan.output(out)


@pytest.mark.parametrize("kind", ["kernel", "copy", "allocation", "worker"])
def test_the_nth_fault_while_switching(executable: Executable, kind: str) -> None:
    plans = {"one": far_and_near((0, 2)), "other": far_and_near((1, 0))}
    before = tasks()
    for nth in range(1, 40):
        failed = 0
        with switched(executable, plans) as executor:
            inject(kind, nth)
            pending = [executor.submit(x=vector(i)) for i in range(2)]
            try:
                executor.switch("other")
            except (RunError, PlatformError) as error:
                failed += 1
                assert "injected fault" in str(error), error
                assert executor.variant == "one"
            try:
                pending.append(executor.submit(x=vector(2)))
            except RunError as error:  # a worker could not be started again
                failed += 1
                assert "injected fault" in str(error), error
            for value, each in enumerate(pending):
                try:
                    assert each.result(WAIT)[0].numpy()[0] == 2 * value
                except RunError as error:
                    failed += 1
                    assert "injected fault" in str(error) or "died" in str(error), error
            inject(kind, 0)
            executor.await_drained()
            assert executor.run(x=vector(9))[0].numpy()[0] == 18
            executor.switch("other" if executor.variant == "one" else "one")
            assert executor.run(x=vector(8))[0].numpy()[0] == 16
        if count(kind) < nth:
            break
        assert failed or kind == "worker"  # which may die with nothing in flight
    assert nth < 39
    assert nth > 1 or kind == "allocation"
    assert eventually(lambda: tasks() <= before + 1)


def test_a_kernel_that_is_not_there_leaves_the_old_plan_and_no_thread(
    executable: Executable,
) -> None:
    gate = Gate()
    gate.open.set()
    plan = KernelPlan(2)
    plan.plan["workers"][0]["name"] = "big"
    x = plan.input()
    [out] = plan.call([x], worker=1, function=gate.enter)
    scratch = plan.kernels([plan.vector("w")], [call("twice", view("in", 0), view("out", 0))])
    plan.plan["inputs"].pop()
    plan.plan["constants"].append({"name": "w", "slot": scratch[0] - 1})
    plan.output(out)
    with switched(executable, {"old": gated_plan(gate)}) as executor:
        before = tasks()
        for _ in range(3):
            with pytest.raises(Exception, match="no library of device 'big'") as caught:
                executor.switch(built(plan))
            assert tasks() <= before, caught
        assert result(executor.run(x=vector(1))) == 3


def test_a_thread_that_cannot_be_started_leaves_the_old_plan(
    executable: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_plans(executable) as two:
        two.old.open.set()
        before = tasks()

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                two.executor.switch("new")
        assert two.executor.variant == "old"
        assert result(two.executor.run(x=vector(1))) == 3
        assert eventually(lambda: tasks() <= before)
        two.executor.switch("new")
        assert result(two.executor.run(x=vector(2))) == 5


def test_a_worker_that_dies_before_or_in_the_switch_takes_none_of_the_new_plan_with_it(
    executable: Executable,
) -> None:
    one, other = [CORES[0]], [CORES[-1]]
    for nth in (1, 2, 3):
        with two_plans(executable, [one, other], [other]) as two:
            first = two.executor.submit(x=vector(1))
            two.old.wait_inside()
            inject("worker", nth)
            try:
                two.executor.switch("new")
            except PlatformError as error:  # the first point is the new plan's thread's start
                assert nth == 1 and "injected fault" in str(error)
                two.executor.switch("new")
            second = two.executor.submit(x=vector(2))
            two.old.open.set()
            outcomes = []
            for pending, right in ((first, 3), (second, 5)):
                try:
                    assert result(pending.result(WAIT)) == right
                except RunError as error:
                    outcomes.append(str(error))
            inject("worker", 0)
            assert len(outcomes) <= 1
            assert all("died" in text for text in outcomes)
            assert result(two.executor.run(x=vector(3))) == 7


def test_a_worker_whose_restart_failed_holds_no_core(executable: Executable) -> None:
    plans = {"one": far_and_near((0, 2)), "other": far_and_near((0, 1))}
    with switched(executable, plans) as executor:
        inject("worker", 1)
        with pytest.raises(RunError, match="died"):
            executor.run(x=vector(1))
        inject("worker", 1)
        with pytest.raises(RunError, match=r"worker 'w0': .*injected fault"):
            executor.run(x=vector(1))
        inject("worker", 0)
        executor.switch("other")
        assert executor.run(x=vector(2))[0].numpy()[0] == 4


# -------------------------------------------------------------------------------- what is left


def test_hundreds_of_switches_leave_neither_threads_nor_memory(executable: Executable) -> None:
    with two_plans(executable) as two:
        two.old.open.set()

        def switch(times: int) -> None:
            for i in range(times):
                two.executor.submit(x=vector(i)).result(WAIT)
                two.executor.switch("old" if i % 2 else "new")

        switch(40)
        two.executor.await_drained()
        threads, files = tasks(), open_descriptors()
        resident = resident_bytes()
        switch(300)
        two.executor.await_drained()
        assert eventually(lambda: tasks() <= threads + 1)
        assert len(open_descriptors() - files) <= 4
        assert resident_bytes() < resident + 12e6  # a plan's threads alone would be 300 stacks


def resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def test_futures_and_outputs_that_are_kept_keep_no_plan(executable: Executable) -> None:
    with two_plans(executable) as two:
        two.old.open.set()
        kept = [two.executor.submit(x=vector(i)) for i in range(2)]
        outputs = [each.result(WAIT) for each in kept]
        old = weakref.ref(two.executor._native)
        two.executor.switch("new")
        two.executor.await_drained()
        assert eventually(lambda: gc.collect() >= 0 and old() is None)
        assert [result(each) for each in outputs] == [1, 3]
        assert not any(each.cancel() for each in kept)


def test_all_plans_share_weights_and_kernels(executable: Executable) -> None:
    with Executor(executable) as executor:
        placed = {key: id(tensor) for key, tensor in executor._model.placed.items()}
        kernels = {path: id(module) for path, module in executor._model.kernels.items()}
        for name in ("single", "partition") * 3:
            executor.switch(name)
            executor.run(executor.random_inputs())
        assert placed.items() <= {k: id(t) for k, t in executor._model.placed.items()}.items()
        assert kernels.items() <= {k: id(m) for k, m in executor._model.kernels.items()}.items()
        assert len(executor._model.kernels) <= 2
