"""Costs of kernels in a whole network: every task of it, on each device that can run it."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tvm

from tests.models import branchy, dense, lowered, two_cpus, unit_problem
from tests.waiting import eventually
from tvm_hetero.cost_models.in_network.batched_kernels import Together
from tvm_hetero.cost_models.in_network.bench import MOST_STRETCH, typical_times
from tvm_hetero.cost_models.in_network.costs import InPlace, measure_in_place
from tvm_hetero.cost_models.in_network.run import (
    Load,
    MeasuredNetwork,
    Rounds,
    _Crew,
    open_networks,
)
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import ProfileWarning
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Problem

FEW = Rounds(budget=0.02, most=5, most_turns=2, noise=math.inf)
PLATFORM = two_cpus()


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return lowered(branchy(), PLATFORM)


@pytest.fixture(scope="module")
def problem(module: tvm.IRModule) -> Problem:
    return unit_problem(module, PLATFORM)


@pytest.fixture(scope="module")
def measured(module: tvm.IRModule, problem: Problem) -> InPlace:
    return measure_in_place(module, problem, rounds=FEW)


def test_every_task_has_a_time_on_each_device(measured: InPlace, problem: Problem) -> None:
    for seconds in (measured.alone, measured.loaded):
        assert set(seconds) == set(problem.costs)
        for row in seconds.values():
            assert set(row) == {"big", "little"}
            assert all(0 < value < 1 and math.isfinite(value) for value in row.values())
    alone = math.fsum(row["big"] for row in measured.alone.values())
    loaded = math.fsum(row["big"] for row in measured.loaded.values())
    assert loaded > 0.5 * alone


def test_the_problem_gets_the_loaded_times(measured: InPlace, problem: Problem) -> None:
    applied = measured.applied_to(problem)
    for task, row in applied.costs.items():
        for device, cost in row.items():
            assert cost.points == ((1, measured.loaded[task][device]),)
            assert cost.seconds(3) == pytest.approx(3 * cost.seconds(1))
    for device in applied.platform.devices:
        assert device.interference == measured.interference(device.name) >= 1
    assert applied.graph is problem.graph


def test_what_was_measured_is_found_again(
    module: tvm.IRModule, problem: Problem, tmp_path: Path
) -> None:
    store = CostStore(tmp_path / "c.sqlite")
    found = measure_in_place(module, problem, store, rounds=FEW)
    # Measured again it would not be the same to the last bit.
    assert measure_in_place(module, problem, CostStore(store.path), rounds=FEW) == found
    assert measure_in_place(module, problem, store, rounds=FEW, again=True) != found
    slower = {
        task: {name: replace(cost, implementation="default") for name, cost in row.items()}
        for task, row in problem.costs.items()
    }
    assert measure_in_place(module, replace(problem, costs=slower), store, rounds=FEW) != found
    # Another schedule takes another time alone.
    assert measure_in_place(module, _with_seconds(problem, 2e-3), store, rounds=FEW) != found


def test_a_device_that_cannot_run_a_task(module: tvm.IRModule, problem: Problem) -> None:
    lacking = next(iter(problem.costs))
    costs = {
        task: {name: cost for name, cost in row.items() if (task, name) != (lacking, "little")}
        for task, row in problem.costs.items()
    }
    found = measure_in_place(module, replace(problem, costs=costs), rounds=FEW)
    for seconds in (found.alone, found.loaded):
        assert set(seconds[lacking]) == {"big"}
        assert all(set(row) == {"big", "little"} for t, row in seconds.items() if t != lacking)


def test_a_device_that_can_run_no_task_has_no_times(module: tvm.IRModule, problem: Problem) -> None:
    costs = {task: {"big": row["big"]} for task, row in problem.costs.items()}
    found = measure_in_place(module, replace(problem, costs=costs), rounds=FEW)
    assert all(set(row) == {"big"} for row in (*found.alone.values(), *found.loaded.values()))


def test_one_device_is_measured_alone(module: tvm.IRModule) -> None:
    platform = Platform((PLATFORM.devices[0],))
    problem = unit_problem(module, platform)
    found = measure_in_place(module, problem, rounds=FEW)
    assert not found.loaded and found.interference("big") is None
    assert found.applied_to(problem).platform == platform


def test_a_device_that_cannot_run_the_network_keeps_its_costs(module: tvm.IRModule) -> None:
    # Core 9999 is not here: its executor cannot be made.
    away = replace(PLATFORM.devices[1], cores=(9999,))
    problem = unit_problem(module, replace(PLATFORM, devices=(PLATFORM.devices[0], away)))
    with pytest.warns(ProfileWarning, match=r"'little'.*kernels alone.*9999"):
        found = measure_in_place(module, problem, rounds=FEW)
    assert all(set(row) == {"big"} for row in found.alone.values())
    applied = found.applied_to(problem)
    assert all(row["little"].seconds(1) == 1e-3 for row in applied.costs.values())


def test_a_device_with_a_memory_of_its_own() -> None:
    big, little = PLATFORM.devices
    platform = replace(PLATFORM, devices=(big, replace(little, private=True)))
    model = ProfiledCosts(in_place=False)
    prepared = make_problem(branchy(), platform, PartitionOptions(cost_model=model))
    found = measure_in_place(prepared.module, prepared.problem, rounds=FEW)
    kernels = {task for task in prepared.problem.costs if task[0].isdigit()}
    assert set(found.loaded) == kernels
    assert all(set(row) == {"big", "little"} for row in found.loaded.values())


def test_costs_alone_are_multiplied_where_nothing_is_measured_in_place() -> None:
    both = tuple(replace(device, interference=1.25) for device in PLATFORM.devices)
    model = ProfiledCosts(in_place=False)
    alone = make_problem(branchy(), PLATFORM, PartitionOptions(cost_model=model)).problem
    loaded = make_problem(
        branchy(), replace(PLATFORM, devices=both), PartitionOptions(cost_model=model)
    ).problem
    for task, row in alone.costs.items():
        for device, cost in row.items():
            assert loaded.costs[task][device].seconds(1) == pytest.approx(1.25 * cost.seconds(1))


def test_profiled_measures_in_place() -> None:
    prepared = make_problem(branchy(), PLATFORM)
    assert list(prepared.seconds) == ["lower", "measure", "measure in place"]
    kernels_alone = make_problem(
        branchy(), PLATFORM, PartitionOptions(cost_model=ProfiledCosts(in_place=False))
    )
    assert prepared.problem.costs.keys() == kernels_alone.problem.costs.keys()
    assert prepared.problem.costs != kernels_alone.problem.costs
    assert all(device.interference >= 1 for device in prepared.problem.platform.devices)


def test_who_waits_for_others_that_never_come_is_sent_home() -> None:
    """An interruption may fall between the starts of two threads."""
    pair = [MeasuredNetwork.__new__(MeasuredNetwork), MeasuredNetwork.__new__(MeasuredNetwork)]
    for network, name in zip(pair, ("big", "little"), strict=True):
        network.device = name
    crew = _Crew(pair, Rounds())
    thread = threading.Thread(target=crew.work, args=(pair[0],), daemon=True)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    crew.end()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("rounds", [Rounds(least=10**9), Rounds(most=3, turns=10**9)])
def test_an_interruption_ends_it(module: tvm.IRModule, problem: Problem, rounds: Rounds) -> None:
    """In the middle of what runs alone, and wherever it is among turns without end."""
    before = threading.active_count()
    sent = []

    def interrupt(what: str, _done: int, _total: int) -> None:
        if what == "measure in place" and not sent:
            sent.append(threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)))
            sent[0].start()

    with pytest.raises(KeyboardInterrupt):
        measure_in_place(module, problem, progress=interrupt, rounds=rounds)
    assert eventually(lambda: threading.active_count() <= before)


def test_quartiles_are_stretched_to_the_median_round() -> None:
    # Each call takes 2 % more in half of the rounds, which one in one round, another in the next.
    rounds = [[1.0, 1.02], [1.02, 1.0]] * 4
    assert typical_times(rounds) == pytest.approx([1.01, 1.01])
    noisy = [[1.0, 1.0], [2.0, 1.0], [1.0, 2.0], [2.0, 2.0]]
    assert typical_times(noisy) == pytest.approx([MOST_STRETCH] * 2)
    assert typical_times([[0.5, 0.25]]) == pytest.approx([0.5, 0.25])


def test_what_is_disturbed_is_not_kept(
    module: tvm.IRModule, problem: Problem, tmp_path: Path
) -> None:
    store = CostStore(tmp_path / "c.sqlite")
    noisy = replace(FEW, noise=-1.0)  # no two rounds are that close
    found = measure_in_place(module, problem, store, rounds=noisy)
    assert set(found.loaded) == set(problem.costs)
    assert measure_in_place(module, problem, store, rounds=FEW) != found
    # Kernels that took a nanosecond each alone: the machine was busy.
    idle = _with_seconds(problem, 1e-9)
    other = measure_in_place(module, idle, store, rounds=FEW)
    assert measure_in_place(module, idle, store, rounds=FEW) != other


def _with_seconds(problem: Problem, seconds: float) -> Problem:
    """The problem with another time for all kernels alone."""
    costs = {
        task: {name: replace(cost, points=((1, seconds),)) for name, cost in row.items()}
        for task, row in problem.costs.items()
    }
    return replace(problem, costs=costs)


@pytest.fixture(scope="module")
def layers() -> tvm.IRModule:
    """One task with many weights, and two with few."""
    return lowered(dense(1024, 256, 64, 8), PLATFORM)


def test_a_batch_is_measured_with_several_elements(layers: tvm.IRModule) -> None:
    problem = unit_problem(layers, PLATFORM, batch=5)
    heavy = max(problem.tasks, key=lambda task: task.weight_bytes).id
    found = measure_in_place(layers, problem, rounds=FEW)
    assert set(found.batched) in ({4}, {2, 4})  # fewer, where four at once pay
    assert found.batched[4].paying == ({heavy} if 2 in found.batched else set())
    for together in found.batched.values():
        for seconds in (together.at_once, together.apart):
            assert set(seconds) == {heavy} and set(seconds[heavy]) == {"big", "little"}
            assert all(0 < value < 1 for value in seconds[heavy].values())
    for task, row in found.applied_to(problem).costs.items():
        for device, cost in row.items():
            assert cost.seconds(1) == found.loaded[task][device]
            assert task == heavy or cost.points == ((1, found.loaded[task][device]),)
            for size in cost.sizes[1:]:
                assert cost.seconds(size) == found.batched[size].at_once[task][device]


def test_without_candidates_nothing_more_is_run(module: tvm.IRModule) -> None:
    steps = []

    def progress(what: str, _done: int, total: int) -> None:
        steps.append((what, total))

    found = measure_in_place(
        module, unit_problem(module, PLATFORM, batch=8), progress=progress, rounds=FEW
    )
    assert found.batched == {}
    assert steps.count(("build for measuring in place", 2)) == 2


def test_each_number_of_elements_is_kept_by_itself(layers: tvm.IRModule, tmp_path: Path) -> None:
    store = CostStore(tmp_path / "c.sqlite")
    quiet = replace(FEW, noise=math.inf)
    two, four = (
        _with_seconds(unit_problem(layers, PLATFORM, batch), 1.0)  # so that any time is plausible
        for batch in (2, 4)
    )
    first = measure_in_place(layers, two, store, rounds=quiet)
    second = measure_in_place(layers, four, store, rounds=quiet)
    assert second.loaded == first.loaded and set(first.batched) == {2}
    assert measure_in_place(layers, four, CostStore(store.path), rounds=quiet) == second
    assert measure_in_place(layers, two, store, rounds=quiet) == first
    again = measure_in_place(layers, two, store, rounds=quiet, again=True)
    assert again.batched[2] != first.batched[2]


def test_a_batch_on_one_device(layers: tvm.IRModule) -> None:
    platform = Platform((PLATFORM.devices[0],))
    found = measure_in_place(layers, unit_problem(layers, platform, batch=2), rounds=FEW)
    assert not found.loaded and set(found.batched) == {2}


def test_what_the_waiting_adds_is_taken_from_every_call(
    module: tvm.IRModule, problem: Problem
) -> None:
    def refused(device: str, reason: str) -> None:
        raise AssertionError(f"{device}: {reason}")

    with open_networks(module, problem, [Load("big")], refused, None) as (network,):
        as_a_gpu = MeasuredNetwork("big", network.executor, is_host=False)
        assert as_a_gpu.executor.profile_kernels  # it was off for the runs that are not watched
        assert 0 <= as_a_gpu._wait < 1e-3  # a core's kernel has ended when its call returns
        as_a_gpu._wait = 1000.0  # longer than any call: a part of it is left
        began = time.perf_counter()
        left = as_a_gpu.round()
        assert all(0 < seconds < time.perf_counter() - began for seconds in left)


def test_equal_devices_cost_the_same() -> None:
    core = replace(PLATFORM.devices[0], name="other", cores=PLATFORM.devices[1].cores)
    platform = Platform((PLATFORM.devices[0], core))
    mod = lowered(dense(8, 4, 2), platform)
    problem = unit_problem(mod, platform, batch=2)
    a, b = problem.costs
    loaded = {a: {"big": 1.0, "other": 1.02}, b: {"big": 1.0, "other": 0.99}}
    at_once = {a: {"big": 1.0, "other": 1.02}}
    apart = {a: {"big": 2.0, "other": 2.0}}
    found = InPlace(loaded, loaded, {2: Together(at_once, apart)}).applied_to(problem)
    assert found.costs[a]["big"] == found.costs[a]["other"]
    assert found.costs[a]["big"].points == ((1, pytest.approx(1.01)), (2, pytest.approx(1.01)))
    assert found.costs[a]["big"].sizes == (1, 2)
    assert found.costs[b]["big"] == found.costs[b]["other"]


def test_a_core_that_was_kept_busy_costs_what_its_like_does() -> None:
    """As their kernels alone say; where these say otherwise too, the devices are unlike."""
    core = replace(PLATFORM.devices[0], name="other", cores=PLATFORM.devices[1].cores)
    platform = Platform((PLATFORM.devices[0], core))
    problem = unit_problem(lowered(dense(8, 4, 2), platform), platform)
    a, b = problem.costs
    busy = {a: {"big": 1.0, "other": 2.0}, b: {"big": 1.0, "other": 1.2}}
    found = InPlace(busy, busy).applied_to(problem)
    assert [found.costs[task]["other"].seconds(1) for task in (a, b)] == [1.0, 1.0]
    slow = {task: {**row, "other": Cost(((1, 2e-3),))} for task, row in problem.costs.items()}
    unlike = InPlace(busy, busy).applied_to(replace(problem, costs=slow))
    assert [unlike.costs[task]["other"].seconds(1) for task in (a, b)] == [2.0, 1.2]


def test_interference_is_no_speedup() -> None:
    found = InPlace({"a": {"d": 2.0}, "b": {"d": 2.0}}, {"a": {"d": 1.0}, "b": {"d": 4.0}})
    assert found.interference("d") == pytest.approx(1.25)
    assert InPlace({"a": {"d": 2.0}}, {"a": {"d": 1.0}}).interference("d") == 1.0


def test_nodes_are_measured_apart(module: tvm.IRModule) -> None:
    """Devices of another node are on the same cores here: at once they would halve each other."""
    core = PLATFORM.devices[0].cores
    devices = tuple(
        Device(name, node=name, target=PLATFORM.devices[0].target, cores=core, overlap=True)
        for name in ("here", "there")
    )
    links = (Link("here", "there", 1e10, 1e-6), Link("there", "here", 1e10, 1e-6))
    found = measure_in_place(module, unit_problem(module, Platform(devices, links)), rounds=FEW)
    assert set(next(iter(found.alone.values()))) == {"here", "there"}
    assert not found.loaded
