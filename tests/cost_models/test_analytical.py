"""The roofline, by hand."""

from __future__ import annotations

import pytest

from tests.cost_models.kernel_samples import elementwise
from tvm_hetero.cost_models import Kernel
from tvm_hetero.cost_models.analytical import AnalyticalCosts, roofline
from tvm_hetero.errors import PlatformError, ProfileError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.platform.arithmetic_units import Units

GPU = Device("gpu", peak_flops=1e12, bandwidth=1e11, launch=5e-6)


def test_the_slower_of_arithmetic_and_traffic_counts() -> None:
    assert roofline(2e9, 1e6, GPU) == pytest.approx(5e-6 + 2e-3)
    assert roofline(2e6, 1e9, GPU) == pytest.approx(5e-6 + 1e-2)
    assert roofline(0, 0, GPU) == 5e-6


def test_costs_are_linear_in_the_batch_and_name_every_compute_device() -> None:
    func = elementwise("k").func
    cpu = Device("cpu", target={"kind": "llvm"}, peak_flops=1e10, bandwidth=1e10)
    platform = Platform((GPU, cpu, Device("switch")))
    steps: list[tuple[str, int, int]] = []
    costs = AnalyticalCosts().costs(
        [Kernel("k", func, flops=1e10, bytes=8)], platform, lambda *step: steps.append(step)
    )
    assert list(costs["k"]) == ["gpu", "cpu"]
    assert costs["k"]["cpu"].seconds(1) == 1.0  # launch is 0 where it is not given
    assert costs["k"]["cpu"].seconds(3) == 3.0
    assert steps[-1][1:] == (1, 1)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (Device("d", peak_flops=1.0), "'d' has no bandwidth"),
        (Device("d", bandwidth=1.0), "'d' has no peak_flops"),
        (Device("d", target={"kind": "cuda"}), "'d' has no peak_flops"),
        (Device("d", launch=1e-6), "'d' has no peak_flops"),
        (Device("d", peak_flops=0.0, bandwidth=1.0), "'d' has a peak_flops of 0 instead"),
    ],
)
def test_a_missing_figure_is_named(device: Device, message: str) -> None:
    with pytest.raises(PlatformError, match=message):
        AnalyticalCosts().costs([elementwise("k")], Platform((GPU, device)))


def test_a_platform_that_computes_nothing() -> None:
    with pytest.raises(ProfileError, match="'k' has a cost on no device"):
        AnalyticalCosts().costs([elementwise("k")], Platform((Device("switch"),)))


def test_a_device_that_can_do_some_kinds_of_work_only_is_refused() -> None:
    """Of which kind a kernel is it does not say, and a guess would place it where it cannot run."""
    pim = Device("pim", peak_flops=1e12, bandwidth=1e12, units=Units(2, {"product": 1.0}))
    with pytest.raises(PlatformError, match="'pim' can do only product"):
        AnalyticalCosts().costs([elementwise("k")], Platform((GPU, pim)))
