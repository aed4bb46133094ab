"""The roofline, by hand."""

from __future__ import annotations

import pytest

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform import Device
from tvm_hetero.platform.roofline import computes, roofline

GPU = Device("gpu", peak_flops=1e12, bandwidth=1e11, launch=5e-6)


def test_the_slower_of_arithmetic_and_memory_after_the_launch():
    assert roofline(2e9, 1e6, GPU) == pytest.approx(5e-6 + 2e-3)
    assert roofline(2e6, 1e9, GPU) == pytest.approx(5e-6 + 1e-2)


def test_efficiency_slows_arithmetic_alone():
    assert roofline(2e9, 1e6, GPU, efficiency=0.5) == pytest.approx(5e-6 + 4e-3)
    assert roofline(2e6, 1e9, GPU, efficiency=0.5) == pytest.approx(5e-6 + 1e-2)


def test_a_missing_figure_is_named():
    with pytest.raises(PlatformError, match="'x' has no bandwidth, which"):
        roofline(1.0, 1.0, Device("x", peak_flops=1e9))
    with pytest.raises(PlatformError, match="a peak_flops of 0 instead of a positive"):
        roofline(1.0, 1.0, Device("x", peak_flops=0.0, bandwidth=1.0))


def test_a_device_without_target_and_figures_computes_nothing():
    assert computes(GPU)
    assert computes(Device("cpu", target={"kind": "llvm"}))
    assert not computes(Device("switch", memory=1))
