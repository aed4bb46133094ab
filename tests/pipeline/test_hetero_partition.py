"""The pass that the project is about: it behaves like TVM's own, and its errors like ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir.instrument import PassTimingInstrument

import tvm_hetero as th
from tests.models import branchy, branchy_inputs, dense, teams_of_cpus, two_cpus
from tvm_hetero import relax as our_relax
from tvm_hetero import relay
from tvm_hetero.compiler.reference_vm import ReferenceVM
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.errors import InfeasibleError, PlatformError, ProfileError, SolverError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.passes.placed_model import is_annotated, problem_and_schedule
from tvm_hetero.pipeline.divisions import division_here
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Objective

X, Y = branchy_inputs()
INPUTS = {"in/x": X, "y": Y}
PLATFORM = two_cpus()
FIGURES = {"peak_flops": 1e10, "bandwidth": 1e10, "launch": 1e-6}


def with_figures(**changes: object) -> Platform:
    """The two CPUs with figures for the analytical model, so that nothing is measured."""
    devices = tuple(replace(d, **FIGURES, **changes) for d in PLATFORM.devices)
    return replace(PLATFORM, devices=devices)


def analytical(**options: object) -> tvm.transform.Pass:
    return relay.transform.HeteroPartition(with_figures(), cost_model="analytical", **options)


def test_the_two_namespaces_are_one():
    assert relay.transform.HeteroPartition is our_relax.transform.HeteroPartition
    assert relay.frontend.from_onnx is our_relax.frontend.from_onnx


def test_it_composes_with_other_passes_and_instruments_see_it():
    timing = PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
        mod = tvm.transform.Sequential([relax.transform.CanonicalizeBindings(), analytical()])(
            branchy()
        )
        seen = timing.render()
    assert is_annotated(mod)
    assert "HeteroPartition" in seen
    assert "LowerToTasks" in seen


def test_a_pass_context_can_switch_it_off():
    with tvm.transform.PassContext(disabled_pass=["HeteroPartition"]):
        mod = tvm.transform.Sequential([analytical()])(branchy())
    assert not is_annotated(mod)


def test_its_info_names_it():
    assert analytical().info.name == "HeteroPartition"


def test_measured_it_runs_and_equals_the_stock_vm_bit_for_bit():
    mod = relay.transform.HeteroPartition(PLATFORM, time_limit=5)(branchy())
    problem, schedule = problem_and_schedule(mod)
    assert th.check.check_schedule(problem, schedule) == []
    assert schedule.lower_bound <= schedule.value <= schedule.best_single_device.value * (1 + 1e-9)
    reference = ReferenceVM(mod).run(X, Y)
    with Executor(th.build(mod)) as executor:
        outputs = executor.run(INPUTS)
    assert [o.numpy().tobytes() for o in outputs] == [r.tobytes() for r in reference]


@pytest.mark.parametrize("kind", ["latency", "throughput"])
def test_objectives(kind):
    mod = analytical(objective=kind)(branchy())
    problem, schedule = problem_and_schedule(mod)
    assert problem.objective == Objective(kind)
    assert th.check.check_schedule(problem, schedule) == []
    if kind == "throughput":
        assert len({e.device for e in schedule.executions}) == 2, "equal devices share the work"


@pytest.mark.parametrize("kind", ["latency", "throughput", "energy", "cost"])
def test_batches(kind):
    platform = with_figures(watts=5.0, price=1.0)
    place = relay.transform.HeteroPartition(
        platform, objective=kind, batch=3, cost_model="analytical", time_limit=2
    )
    mod = place(branchy())
    problem, schedule = problem_and_schedule(mod)
    assert problem.objective == Objective(kind, 3)
    assert th.check.check_schedule(problem, schedule) == []
    elements = [branchy_inputs(seed) for seed in range(3)]
    stacked = [np.stack(values) for values in zip(*elements, strict=True)]
    with Executor(th.build(mod, single=False)) as executor:
        outputs = executor.run(dict(zip(INPUTS, stacked, strict=True)))
    alone = ReferenceVM(analytical()(branchy()))
    for element, inputs in enumerate(elements):
        for out, expected in zip(outputs, alone.run(*inputs), strict=True):
            np.testing.assert_allclose(out.numpy()[element], expected, rtol=1e-4, atol=1e-5)


def test_the_same_module_and_seed_give_the_same_bytes():
    one, other = (problem_and_schedule(analytical(seed=3)(branchy()))[1] for _ in range(2))
    assert one.dumps(canonical=True) == other.dumps(canonical=True)


def test_a_partitioned_module_can_be_partitioned_again():
    once = analytical(solver="single")(branchy())
    again = analytical()(once)
    fresh = analytical()(branchy())
    assert problem_and_schedule(again)[0].digest == problem_and_schedule(fresh)[0].digest
    with Executor(th.build(again, single=False)) as one, Executor(th.build(fresh)) as other:
        pairs = zip(one.run(INPUTS), other.run(INPUTS), strict=True)
        assert all((a.numpy() == b.numpy()).all() for a, b in pairs)


def test_the_module_is_not_changed():
    before = branchy()
    text = before.script(show_meta=True)
    analytical()(before)
    assert before.script(show_meta=True) == text


@pytest.mark.parametrize(
    ("memory", "kind", "message"),
    [
        (1000, "latency", r"task '.*' needs .* too little; add memory, or a device"),
        (38_000, "throughput", r"weights and, in steady state.* too little"),
    ],
)
def test_memory_in_which_nothing_fits_is_refused_before_anything_is_measured(
    memory: int, kind: str, message: str, tmp_path: Path
) -> None:
    devices = tuple(replace(device, memory=memory) for device in PLATFORM.devices)
    platform = replace(PLATFORM, devices=devices, links=())
    model = ProfiledCosts(CostStore(tmp_path / "costs.sqlite"))
    with pytest.raises(InfeasibleError, match=message):
        partition(
            branchy(), platform, PartitionOptions(objective=Objective(kind), cost_model=model)
        )  # type: ignore[arg-type]
    assert model.runs == 0 and not list(tmp_path.iterdir())


def test_a_platform_without_a_cpu_is_refused_before_anything_is_measured():
    lonely = Platform((Device("gpu", target={"kind": "cuda", "arch": "sm_90"}),))
    with pytest.raises(PlatformError, match="no CPU device to take inputs and outputs"):
        partition(branchy(), lonely)


def test_a_solver_that_knows_no_teams_is_refused_before_anything_is_measured(tmp_path: Path):
    model = ProfiledCosts(CostStore(tmp_path / "costs.sqlite"))
    options = PartitionOptions(solver="stages", cost_model=model)
    with pytest.raises(SolverError, match="'stages' does not know devices that share cores"):
        partition(branchy(), teams_of_cpus(), options)
    assert model.runs == 0 and not list(tmp_path.iterdir())


def test_a_batch_whose_weights_are_read_once_where_that_was_measured_to_pay():
    mod = relay.transform.HeteroPartition(PLATFORM, batch=4, time_limit=5)(dense(1024, 512, 16))
    problem, schedule = problem_and_schedule(mod)
    assert th.check.check_schedule(problem, schedule) == []
    x = np.random.default_rng(0).standard_normal((4, 1024)).astype("float32")
    with Executor(th.build(mod)) as executor:
        (y,) = executor.run({executor.inputs[0].name: x})
        calls = [row for row in executor.kernel_times() if row.task.startswith("0.")]
    for execution in schedule.executions:
        if execution.task.startswith("0."):
            cost = problem.costs[execution.task][execution.device]
            own = [row for row in calls if set(row.elements) <= set(execution.elements)]
            sizes = tuple(sorted((len(row.elements) for row in own), reverse=True))
            assert sizes == cost.calls_of(len(execution.elements))
    with Executor(th.build(analytical()(dense(1024, 512, 16)))) as one:
        alone = [one.run({one.inputs[0].name: x[i : i + 1]})[0].numpy() for i in range(4)]
    np.testing.assert_allclose(y.numpy(), np.concatenate(alone), rtol=1e-4, atol=1e-4)


def test_our_errors_come_through_the_pass_infrastructure_as_they_are():
    with pytest.raises(InfeasibleError, match="memory"):
        tvm.transform.Sequential(
            [relay.transform.HeteroPartition(with_figures(memory=64), cost_model="analytical")]
        )(branchy())
    with pytest.raises(UsageError, match="hefft"):
        analytical(solver="hefft")(branchy())
    bare = Platform((Device("cpu", cores=(0,)),))
    with pytest.raises(ProfileError, match="no device of the platform runs kernels"):
        relay.transform.HeteroPartition(bare)(branchy())


def test_with_no_argument_it_takes_this_machine():
    mod = relay.transform.HeteroPartition(time_limit=5)(dense(64, 32, 16))
    problem, _ = problem_and_schedule(mod)
    assert problem.platform.names == division_here(PartitionOptions()).detect().names
    x = np.random.default_rng(0).standard_normal((1, 64)).astype("float32")
    with Executor(th.build(mod)) as executor:
        (output,) = executor.run({executor.inputs[0].name: x})
    vm = relax.VirtualMachine(tvm.compile(dense(64, 32, 16), "llvm"), tvm.cpu())
    expected = vm["main"](tvm.runtime.tensor(x))
    np.testing.assert_allclose(output.numpy(), expected.numpy(), rtol=1e-4, atol=1e-6)


def test_what_it_returns_is_an_ordinary_module():
    mod = analytical()(branchy())
    relax.analysis.well_formed(mod)
    assert tvm_ffi.structural_equal(tvm.ir.load_json(tvm.ir.save_json(mod)), mod)
    assert "vdevice" in mod.script()
