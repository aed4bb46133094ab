"""Chains of tiny kernels: the plans are good, and a change of the worker takes time."""

from __future__ import annotations

import os

import pytest

from tvm_hetero.cost_models.links import handover
from tvm_hetero.cost_models.links.handover import (
    CHAIN,
    LEAST,
    WAIT,
    CorePlace,
    apart_plan,
    measure_cold,
    measure_handover,
    together_plan,
)
from tvm_hetero.executor import native

CORES = sorted(os.sched_getaffinity(0))
HERE, THERE = CorePlace(CORES[0]), CorePlace(CORES[-1])


def test_the_chain_apart_changes_the_worker_at_every_kernel() -> None:
    plan = apart_plan(HERE, THERE, LEAST)
    assert [step.worker for step in plan.steps] == [i % 2 for i in range(CHAIN)]
    assert all(len(step.calls) == 1 for step in plan.steps)
    assert [row.cores for row in plan.workers] == [(HERE.core,), (THERE.core,)]
    assert len(together_plan(HERE, LEAST).steps) == 1
    assert len(together_plan(HERE, LEAST).steps[0].calls) == CHAIN


def test_what_waits_was_written_by_the_other_worker() -> None:
    steps = apart_plan(HERE, THERE, LEAST, WAIT).steps
    assert [step.ins[0] for step in steps] == [0] * WAIT + list(range(1, CHAIN - WAIT + 1))
    by_slot = {step.outs[0]: step.worker for step in steps}
    assert all(by_slot[step.ins[0]] != step.worker for step in steps[WAIT:])


def test_here_alone_is_one_worker() -> None:
    plan = apart_plan(HERE, HERE, LEAST)
    assert len(plan.workers) == 1 and len(plan.steps) == CHAIN
    assert {step.worker for step in plan.steps} == {0}


def test_a_place_with_its_own_memory_is_reached_by_copies() -> None:
    plan = apart_plan(HERE, CorePlace(THERE.core, (1, 1)), LEAST)
    kinds = [step.kind for step in plan.steps]
    assert kinds[:4] == ["kernels", "copy", "kernels", "copy"] and kinds.count("kernels") == CHAIN
    for step in plan.steps:
        here = step.to_device if step.kind == "copy" else plan.workers[step.worker].device
        assert plan.slots[step.outs[0]].device == here


@pytest.mark.parametrize("there", [THERE, CorePlace(THERE.core, (1, 1))])
def test_the_executor_takes_the_plans(there: CorePlace) -> None:
    for plan in (together_plan(HERE, LEAST), apart_plan(HERE, there, LEAST)):
        native.create(plan).close()


def test_a_hand_over_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "SAMPLES", 10)
    latency, per_byte = measure_handover(HERE, THERE)
    # Of the least that a busy machine may say: it slept through the chain that is whole.
    assert -1e-6 < latency < 1e-2
    assert abs(per_byte) < 1e-6


def test_tensors_that_have_left_the_caches_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "COLD_SAMPLES", 3)
    # 1 GB/s would be a broken memory, 1 TB/s none that is left by anything.
    assert 1e-12 < measure_cold(HERE, THERE) < 1e-9
