"""Whatever fails while a stream is adapted: nothing lost, the old plan goes on, it is told once."""

from __future__ import annotations

import threading
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.online.live.models import (
    BIG,
    INPUTS,
    LITTLE,
    WAIT,
    adaptable,
    as_bytes,
    endless,
    outputs_of,
)
from tests.online.live.test_adapter import scripted
from tests.online.live.watched import CONFIGURATION, PLACES, watched
from tvm_hetero.compiler.plan_factory import PlanFactory
from tvm_hetero.errors import RunError
from tvm_hetero.executor import native, plan_switch
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.live import pipeline as pipelines
from tvm_hetero.online.live.adapter import Adapter, make_setting
from tvm_hetero.online.live.pipeline import LivePipeline
from tvm_hetero.online.live.stage_times import observe
from tvm_hetero.online.policy import Policy

# Everything that a switch does, in this order.
STEPS: tuple[tuple[Any, str], ...] = (
    (pipelines, "schedule_of"),
    (PlanFactory, "variant"),
    (plan_switch, "native_text"),
    (native, "create"),
    (plan_switch, "set_libraries"),
    (plan_switch, "set_constants"),
    (plan_switch, "RpcSteps"),
    (plan_switch, "Completions"),
    (plan_switch, "Staging"),
    (plan_switch, "Gates"),
    (Executor, "_apply_settings"),
)


def threads() -> int:
    """Those of this process, when a switch's own has ended."""
    for thread in threading.enumerate():
        if thread.name == "tvm_hetero switch":
            thread.join(WAIT)
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
def test_a_switch_that_fails_at_any_step_leaves_the_plan_that_runs(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError(name)

    with Executor(adaptable()) as executor:
        pipeline = LivePipeline(executor, adaptable())
        pipeline.switch(BIG)
        executor.await_drained()
        before = threads()
        stream = executor.map(endless())
        first = [as_bytes(each) for each in islice(stream, 3)]
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            for _ in range(2):
                with pytest.raises(MemoryError, match=name):
                    pipeline.switch(LITTLE)
        assert {*first, *(as_bytes(each) for each in islice(stream, 8))} == {outputs_of(BIG)}
        # Nothing of the new plans is left; one that was just ending may have been counted before.
        assert threads() < before + 2
        assert pipeline.switch(LITTLE)  # it is not taken for what runs
        executor.await_drained()
        assert as_bytes(executor.run(INPUTS)) == outputs_of(LITTLE)


def test_a_policy_that_ends_its_thread_is_told_once() -> None:
    def fail(_state: object, _seen: object) -> Any:
        raise SystemExit("a policy")

    told: list[Exception] = []
    with Executor(adaptable()) as executor:
        pipeline = LivePipeline(executor, adaptable())
        policy = Policy("faulty", scripted(LITTLE).begin, fail)
        adapter = Adapter(pipeline, policy, make_setting(pipeline), tell_failure=told.append)
        for outputs in executor.map(endless()):
            assert as_bytes(outputs) == outputs_of(LITTLE)
            if adapter.failure is not None:
                break
        adapter._thread.join(WAIT)
        assert told == [adapter.failure]
        assert isinstance(adapter.failure, RunError) and "a policy" in str(adapter.failure)
        assert as_bytes(executor.run(INPUTS)) == outputs_of(LITTLE)


def test_requests_by_a_clock_that_jumps_do_not_count() -> None:
    rows = watched((4e-3, 6e-3))
    rows.ends[::2, 1] -= 3600
    rows.ends[1, 0] = np.inf
    rows.ended[3] -= 1e6
    found = observe(rows, CONFIGURATION, PLACES)
    assert found is not None and found.requests == 8
    assert found.times == pytest.approx((4e-3, 6e-3))
    rows.ends[:, 0] = -1.0
    assert observe(rows, CONFIGURATION, PLACES) is None
