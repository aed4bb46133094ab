"""Estimates from a few measurements: which are made, and how they are scaled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cost_models.kernel_samples import elementwise, unbuildable
from tests.models import branchy, equal_cpus, two_cpus
from tvm_hetero.cost_models.quick import (
    ASSUMED,
    QuickCosts,
    RuleScale,
    spread_over,
    without_assumed,
)
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.errors import ProfileError
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.platform import Device, Platform

CPU = Device("cpu0", target={"kind": "llvm"}, cores=two_cpus().devices[0].cores)
LONG = [elementwise(f"k{n}", 1 << n) for n in (8, 10, 12, 14, 16, 18)]


def sized(kernels):
    """As the pipeline has them: with what they compute and move."""
    return [
        replace(k, flops=float(1 << n), bytes=8.0 * (1 << n))
        for k, n in zip(kernels, (8, 10, 12, 14, 16, 18), strict=True)
    ]


@pytest.fixture
def model(tmp_path) -> QuickCosts:
    return QuickCosts(CostStore(tmp_path / "costs.sqlite"))


def test_the_scale_of_a_rule_goes_through_its_anchors_and_stays_beyond_them():
    scale = RuleScale.of({1e-3: 4e-3, 1e-5: 2e-5})
    assert scale.seconds(1e-5) == pytest.approx(2e-5)
    assert scale.seconds(1e-3) == pytest.approx(4e-3)
    assert scale.seconds(1e-4) == pytest.approx(3e-4)  # halfway: three times the roofline
    assert scale.seconds(1e-7) == pytest.approx(2e-7)
    assert scale.seconds(1.0) == pytest.approx(4.0)


@pytest.mark.parametrize(("count", "names"), [(1, "k18"), (2, "k8 k18"), (3, "k8 k12 k18")])
def test_what_is_measured_is_spread_from_the_least_to_the_largest(count, names):
    roofs = {k.name: k.bytes for k in sized(LONG)}
    assert [k.name for k in spread_over(sized(LONG), roofs, count)] == names.split()
    assert len(spread_over(LONG[:2], roofs, 3)) == 2


def test_few_kernels_are_measured_and_all_have_a_cost(model):
    costs = model.costs(sized(LONG), Platform((CPU,)))
    measured = [choice.kernel for choice in model.choices()]
    assert measured == ["k8", "k12", "k18"]
    times = [costs[k.name]["cpu0"].seconds(1) for k in LONG]
    assert all(time > 0 for time in times)
    assert min(times[0], times[2]) <= times[1] <= 16 * max(times[0], times[2])


def test_devices_that_are_alike_share_what_one_of_them_took(model):
    platform = equal_cpus()
    costs = model.costs(sized(LONG), platform)
    assert all(row["big"] == row["little"] for row in costs.values())
    timings = {choice.device: choice.timing for choice in model.choices()}
    assert timings["big"] is timings["little"]
    model.costs(sized(LONG)[:1], two_cpus())
    timings = {choice.device: choice.timing for choice in model.choices()}
    assert timings["big"] is not timings["little"]


def test_a_kernel_that_runs_nowhere_is_an_error(model):
    with pytest.raises(ProfileError, match=unbuildable().name):
        model.costs([unbuildable()], Platform((CPU,)))


def test_a_kernel_that_cannot_be_built_does_not_keep_its_rule_from_being_estimated(model):
    broken = replace(unbuildable(), flops=0.0, bytes=0.0)
    with pytest.raises(ProfileError, match=broken.name), pytest.warns(match=broken.name):
        model.costs([*sized(LONG), broken], Platform((CPU,)))
    assert {choice.kernel for choice in model.choices()} >= {"k12", "k18"}


def test_links_between_cores_are_assumed_and_those_of_the_platform_kept(model, own_cache):
    given = replace(equal_cpus(), links=equal_cpus().links[:1])
    linked = model.with_links(given)
    kept, added = linked.links
    assert kept == given.links[0]
    assert (added.latency, added.bandwidth) == ASSUMED
    # The first one of the tests' platform happens to have the very same figures.
    assert without_assumed(replace(linked, links=(replace(kept, latency=2e-6), added))).links == (
        replace(kept, latency=2e-6),
    )


def test_the_problem_of_a_network_is_made_without_measuring_it(own_cache):
    prepared = make_problem(branchy(), equal_cpus(), PartitionOptions.quick())
    assert "measure in place" not in prepared.seconds
    assert all(set(row) == {"big", "little"} for row in prepared.problem.costs.values())


def test_options_for_a_quick_plan_are_defaults_but_for_what_is_given():
    quick = PartitionOptions.quick(seed=3)
    assert (quick.cost_model, quick.time_limit, quick.seed) == ("quick", 2.0, 3)
    assert PartitionOptions.quick(time_limit=5.0).time_limit == 5.0
    with pytest.raises(TypeError, match="no_such"):
        PartitionOptions.quick(no_such=1)
