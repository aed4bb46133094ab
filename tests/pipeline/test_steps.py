"""The pipeline as a list: which phases a job goes through, and what is checked after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import tvm

from tests.models import branchy, two_cpus
from tvm_hetero.cost_models.protocol import Costs, Progress
from tvm_hetero.errors import PassFault
from tvm_hetero.passes.attributes import DEVICE
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.kernel_choices import choices_of, traces_of
from tvm_hetero.passes.placed_model import is_annotated, problem_and_schedule
from tvm_hetero.pipeline.hetero_partition import HeteroPartition
from tvm_hetero.pipeline.job import Job
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem, partition
from tvm_hetero.pipeline.steps import PLACE, PREPARE, run_phases
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.implementation_choice import Choice, Timing

PLATFORM = two_cpus()


class Alike:
    """What a user may write: a name and costs, and nothing else."""

    name = "alike"

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, progress: Progress | None = None
    ) -> Costs:
        row = {device: Cost(((1, 1e-3),)) for device in platform.names}
        return {kernel.name: dict(row) for kernel in kernels}


class Measuring(Alike):
    """A model that says that it measures: which the pipeline asks by what it can, not by class."""

    def __init__(self, in_place: bool) -> None:
        self.in_place = in_place
        self.kernel = ""

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, progress: Progress | None = None
    ) -> Costs:
        self.kernel = kernels[0].name
        return super().costs(kernels, platform, progress)

    def with_links(self, platform: Platform) -> Platform:
        return replace(platform, name="with links")

    def choices(self) -> tuple[Choice, ...]:
        return (Choice(self.kernel, "big", "a rule", "rule", {"rule": Timing(1e-3)}),)

    def traces(self) -> Mapping[str, Mapping[str, str]]:
        return {self.kernel: {"big": "[1]"}}

    def refine(self, module: Any, problem: Problem, progress: Progress | None = None) -> Problem:
        assert choices_of(module) == self.choices()
        return replace(problem, name="refined")


def job_of(model: Any, **asked: Any) -> Job:
    options = PartitionOptions(solver="heft", cost_model=model, **asked)
    return Job(branchy(), PLATFORM, options, model)


def test_a_plain_cost_model_is_not_asked_to_measure():
    job = job_of(Alike())
    run_phases(job, PREPARE)
    assert list(job.seconds) == ["lower", "measure"]
    assert job.measuring is None and job.platform is PLATFORM
    assert choices_of(job.module) == () and not is_annotated(job.module)
    run_phases(job, PLACE)
    assert list(job.seconds) == ["lower", "measure", "solve", "annotate"]
    assert problem_and_schedule(job.placed.to_module()) == (job.problem, job.schedule)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_measuring_one_is_asked_for_links_choices_and_the_whole_network(in_place: bool):
    model = Measuring(in_place)
    job = job_of(model)
    run_phases(job, PREPARE)
    assert job.problem.platform.name == "with links"
    assert (job.problem.name == "refined") == in_place
    assert list(job.seconds) == ["lower", "measure", *["measure in place"] * in_place]
    assert choices_of(job.module) == model.choices()
    assert traces_of(job.module) == model.traces()


def test_costs_of_idle_devices_are_slowed_down_only_where_they_were_measured():
    devices = tuple(replace(device, interference=2.0) for device in PLATFORM.devices)
    busy = replace(PLATFORM, devices=devices)
    plain = make_problem(branchy(), busy, PartitionOptions(cost_model=Alike())).problem
    slowed = make_problem(branchy(), busy, PartitionOptions(cost_model=Measuring(False))).problem
    for task, row in plain.costs.items():
        assert {c.seconds(1) for c in row.values()} == {1e-3}
        assert {c.seconds(1) for c in slowed.costs[task].values()} == {2e-3}


def test_annotations_are_a_phase_only_where_they_are_respected():
    job = job_of(Alike(), respect_annotations=True)
    run_phases(job, PREPARE)
    assert list(job.seconds) == ["lower", "measure", "pin"]


def test_a_pass_that_misplaces_a_call_is_found_out():
    def misplace(job: Job) -> None:
        module = job.placed.placed
        var = next(v for v, f in module.functions.items() if f.attrs and DEVICE in f.attrs)
        module[var] = module[var].with_attr(DEVICE, "nowhere")

    job = job_of(Alike())
    run_phases(job, PREPARE)
    solve, annotate = PLACE
    broken = replace(annotate, steps=(*annotate.steps, misplace))
    with pytest.raises(PassFault, match="no device of the platform: nowhere"):
        run_phases(job, (solve, broken))


def test_the_pass_s_keywords_say_what_the_one_value_says():
    goal = Objective("throughput", 2)
    asked = {"solver": "single", "seed": 3, "cost_model": Alike(), "time_limit": 5.0}
    one = partition(branchy(), PLATFORM, PartitionOptions(objective=goal, **asked))  # type: ignore[arg-type]
    by_pass = HeteroPartition(PLATFORM, "throughput", batch=2, **asked)  # type: ignore[arg-type]
    assert isinstance(by_pass, tvm.transform.Pass)
    placed = problem_and_schedule(by_pass(branchy()))[1]
    assert placed.dumps(canonical=True) == one.schedule.dumps(canonical=True)
