"""Kernels of a device that is no CPU are used if they compute what a CPU does.

The device that is tested is a CPU, too, of another target, whose wrong schedules are planted: what
is compared, and what becomes of it, is the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.target import Target

from tests.cost_models.kernel_samples import LLVM, here, scaling, segfaulting, sleeping, unbuildable
from tvm_hetero.cost_models.kernels_alone.candidates import Schedule, make_jobs
from tvm_hetero.cost_models.kernels_alone.device_run import DeviceRun
from tvm_hetero.cost_models.kernels_alone.kernel_values import find_difference
from tvm_hetero.cost_models.kernels_alone.profile import Profile
from tvm_hetero.cost_models.kernels_alone.profile_run import measure_target
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy
from tvm_hetero.cost_models.kernels_alone.target_jobs import Setup, TargetJobs, host_target
from tvm_hetero.cost_models.protocol import ProfileWarning
from tvm_hetero.cost_models.store import CostStore, Tuning
from tvm_hetero.cost_models.store.identity import kernel_key
from tvm_hetero.devices.target import device_target
from tvm_hetero.kernels.tir.implementation_attr import (
    RULE,
    RULE_ATTR,
    TUNED,
    implementation_of,
    without_implementation,
)
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform import Device, Platform

HASTY = SamplingPolicy(budget=0.001, rounds=1)
PLATFORM = here()
HOST = Target({**LLVM, "mcpu": "x86-64-v3"})
COPY = sleeping()
# What each kernel is on the device and on the host.
WAYS = {
    "right": (COPY, COPY),
    "wrong": (scaling(factor=1.001), COPY),
    "rounded": (scaling(factor=1.00001), COPY),
    "no twin": (COPY, unbuildable()),
    "its twin dies": (COPY, segfaulting()),
}


def schedule(func: tvm.tirx.PrimFunc, target: Target) -> tvm.tirx.PrimFunc:
    """What `WAYS` say of a kernel, told by its attribute ``kernel``."""
    name = str(func.attrs["kernel"])
    made = WAYS[name][str(target.attrs["mcpu"]) == HOST.attrs["mcpu"]].func
    return without_implementation(made).with_attr("kernel", name).with_attr(RULE_ATTR, "planted")


def profile(store: CostStore, schedule: Schedule = schedule) -> Profile:
    """All kernels, on a device that is taken for none of this machine's CPU."""
    kernels = [Kernel(name, COPY.func.with_attr("kernel", name)) for name in WAYS]
    setup, profile = Setup(store, HASTY, schedule), Profile()
    target = TargetJobs(setup, profile, kernels, PLATFORM, PLATFORM.devices[0], None)
    assert target.host is None and all(job.host is None for job in target.jobs)
    target.host = HOST
    target.jobs = make_jobs(kernels, target.target, schedule, store, target.tell, host=HOST)
    measure_target(target, PLATFORM.devices)
    return profile


def test_what_differs_from_the_cpu_or_cannot_be_compared_is_left_out(tmp_path: Path) -> None:
    """Also the second time: no time of it comes back out of the store."""
    for runs in (len(WAYS), len(WAYS) - 2):
        with pytest.warns(ProfileWarning) as told:
            found = profile(CostStore(tmp_path / "costs.sqlite"))
        assert {name for name, _ in found.choices} == {"right", "rounded"}
        assert all(choice.implementation == RULE for choice in found.choices.values())
        assert set(found.reasons) == {"wrong", "no twin", "its twin dies"}
        assert "something else than a CPU does: tensor 1 is off by" in found.reasons["wrong"]
        assert "cannot be compared" in found.reasons["no twin"]
        assert "SIGSEGV" in found.reasons["its twin dies"]
        assert found.runs == runs
        assert any("'wrong' on device 'cpu0'" in str(each.message) for each in told)


def test_no_time_is_stored_before_its_kernel_has_been_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interruption between the two must not let a wrong kernel pass the next time."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(DeviceRun, "_hold_contests", interrupted)
        profile(CostStore(tmp_path / "costs.sqlite"))
    with pytest.warns(ProfileWarning):
        found = profile(CostStore(tmp_path / "costs.sqlite"))
    assert found.runs == len(WAYS) and "wrong" in found.reasons


def test_a_tuned_kernel_that_is_right_takes_the_place_of_a_wrong_rule(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.sqlite")
    key = kernel_key(COPY.func.with_attr("kernel", "wrong"))
    store.set_tuning(key, str(device_target(PLATFORM.devices[0])), Tuning("[1]", 1e-6, 1e-3, 8))

    def tuned(func: tvm.tirx.PrimFunc, target: Target) -> tvm.tirx.PrimFunc:
        if implementation_of(func) != TUNED:
            return schedule(func, target)
        return COPY.func.with_attrs({"kernel": "wrong", RULE_ATTR: "planted"})

    with pytest.warns(ProfileWarning):
        found = profile(store, tuned)
    assert found.choices["wrong", "cpu0"].implementation == TUNED
    assert "a CPU does" in found.choices["wrong", "cpu0"].refused[RULE]


def test_whole_numbers_made_of_floats_may_be_neighbours_here_and_there() -> None:
    floats = np.zeros(4, np.float32)
    codes = np.zeros(5000, np.int8)
    near, far, many = codes.copy(), codes.copy(), codes.copy()
    near[7], far[7], many[:50] = 1, 2, 1
    for other, is_right in ((near, True), (far, False), (many, False)):
        found = find_difference([floats, codes], [floats, other], rounded=True)
        assert (found is None) is is_right
        assert find_difference([floats, codes], [floats, other]) is not None
        assert find_difference([codes], [other], rounded=True) is not None


def test_the_cpu_is_one_of_this_machine() -> None:
    gpu = Device("gpu", target={"kind": "cuda", "arch": "sm_90"})
    elsewhere = Device("far", target=LLVM, cores=(100_000,))
    both = Platform(devices=(gpu, elsewhere, *PLATFORM.devices))
    assert str(host_target(both)) == str(device_target(PLATFORM.devices[0]))
    assert host_target(Platform(devices=(gpu, elsewhere))).kind.name == "llvm"
