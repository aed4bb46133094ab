"""Kernels that are really compiled and run; some of them crash, hang or cannot be built."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import tvm

from tests.cost_models.kernel_samples import (
    LLVM,
    PATIENCE,
    aborting,
    as_it_is,
    elementwise,
    hanging,
    here,
    illegal,
    python_path,
    segfaulting,
    unbuildable,
)
from tvm_hetero.cost_models.kernels_alone.bench import NotMeasured, parameters, timing_of
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.protocol import ProfileWarning
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.errors import PlatformError, ProfileError
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform import Device, Platform
from tvm_hetero.platform.host import available_cores
from tvm_hetero.problem.implementation_choice import Timing

QUICK = SamplingPolicy(budget=0.001, rounds=1)
HASTY = SamplingPolicy(budget=0.001, rounds=2)


def model(folder: Path, effort: SamplingPolicy = QUICK, plain: bool = False) -> ProfiledCosts:
    store = CostStore(folder / "costs.sqlite")
    return ProfiledCosts(store, effort, as_it_is if plain else None)


def test_measures_each_device_once_and_finds_it_again(tmp_path: Path) -> None:
    kernels = [elementwise("short", 64), elementwise("long", 1 << 18)]
    platform = here(2)
    steps: list[tuple[str, int, int]] = []
    first = model(tmp_path)
    costs = first.costs(kernels, platform, lambda *step: steps.append(step))
    assert {k: list(row) for k, row in costs.items()} == {
        "short": ["cpu0", "cpu1"],
        "long": ["cpu0", "cpu1"],
    }
    # A thousandfold of work: the one comparison of times that no noise can turn round.
    assert costs["long"]["cpu0"].seconds(1) > costs["short"]["cpu0"].seconds(1) > 0
    different_cores = len(available_cores()) > 1
    assert first.runs == (4 if different_cores else 2)
    assert ("measure on cpu0", 2, 2) in steps
    again = model(tmp_path)
    assert again.costs(kernels, platform) == costs
    assert again.runs == 0


def test_equal_kernels_of_other_names_are_measured_once(tmp_path: Path) -> None:
    profiled = model(tmp_path)
    costs = profiled.costs([elementwise("one"), elementwise("two")], here())
    assert profiled.runs == 1
    assert costs["one"] == costs["two"]


def test_a_changed_kernel_or_target_is_measured_anew(tmp_path: Path) -> None:
    model(tmp_path).costs([elementwise("k", 64)], here())
    other_kernel = model(tmp_path)
    other_kernel.costs([elementwise("k", 65)], here())
    assert other_kernel.runs == 1
    other_target = model(tmp_path)
    cores = here().devices[0].cores
    device = Device("cpu0", target={**LLVM, "mcpu": "x86-64"}, cores=cores)
    other_target.costs([elementwise("k", 64)], Platform((device,)))
    assert other_target.runs == 1


def test_weights_that_are_thrown_out_of_the_caches_are_another_measurement(
    tmp_path: Path,
) -> None:
    kernel = elementwise("k", 64)
    profiled = model(tmp_path)
    profiled.costs([kernel], here())
    profiled.costs([Kernel("k", kernel.func, constants=(0,))], here())
    assert profiled.runs == 2


def test_bad_kernels_cost_only_themselves(tmp_path: Path) -> None:
    kernels = [elementwise("good", 64), aborting(), segfaulting(), hanging(), unbuildable()]
    kernels.append(elementwise("last", 128))
    for limit in PATIENCE:
        folder = tmp_path / f"{limit:g}"
        profiled = model(folder, replace(HASTY, time_limit=limit), plain=True)
        with warnings.catch_warnings(record=True) as caught, pytest.raises(ProfileError) as error:
            warnings.simplefilter("always")
            profiled.costs(kernels, here())
        texts = [str(w.message) for w in caught if issubclass(w.category, ProfileWarning)]
        if sum("did not end" in text for text in texts) == 1:
            break
    assert len(texts) == 4
    for name, reason in [
        ("aborts", "SIGABRT"),
        ("crashes", "SIGSEGV"),
        ("hangs", f"did not end within {limit:g} s"),
        ("broken", "cannot be compiled"),
    ]:
        assert any(f"'{name}' on device 'cpu0'" in text and reason in text for text in texts), name
    # The first kernel without any device is the one that is refused.
    assert "'aborts'" in str(error.value) and "SIGABRT" in str(error.value)
    assert profiled.runs >= 2 * HASTY.rounds  # more where a time went on falling
    rest = model(folder, plain=True)
    assert set(rest.costs([kernels[0], kernels[-1]], here())) == {"good", "last"}
    assert rest.runs == 0


def test_a_kernel_may_lack_one_device_of_two(tmp_path: Path) -> None:
    def crash_on_v2(func: tvm.tirx.PrimFunc, target: tvm.target.Target) -> tvm.tirx.PrimFunc:
        return aborting().func if target.attrs["mcpu"] == "x86-64-v2" else func

    cores = here().devices[0].cores
    old = Device("old", target=LLVM, cores=cores)
    new = Device("new", target={**LLVM, "mcpu": "x86-64"}, cores=cores)
    profiled = ProfiledCosts(CostStore(tmp_path / "c.sqlite"), QUICK, crash_on_v2)
    with pytest.warns(ProfileWarning, match="'k' on device 'old'.*SIGABRT"):
        costs = profiled.costs([elementwise("k", 64)], Platform((old, new)))
    assert list(costs["k"]) == ["new"]


def test_a_cpu_that_lacks_the_instructions_is_refused_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"'cpu0'.*lacks instructions.*mcpu.*analytical"):
        model(tmp_path, plain=True).costs([illegal(), aborting()], here())


def test_interrupting_keeps_what_was_measured(tmp_path: Path) -> None:
    code = f"""if True:
        from pathlib import Path
        from tvm_hetero.processes.torch_import import hide_torch
        hide_torch()
        from tests.cost_models.kernel_samples import elementwise, hanging, here, as_it_is
        from tests.cost_models.test_profiled import model, QUICK
        kernels = [elementwise("a", 64), elementwise("b", 65), hanging()]
        profiled = model(Path({str(tmp_path)!r}), QUICK, plain=True)
        try:
            profiled.costs(kernels, here(), lambda *step: print(*step, flush=True))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=python_path()) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("measure on cpu0 2 3"):
                break
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().strip() == "interrupted"
    assert children
    psutil.wait_procs(children, timeout=60)
    assert not any(child.is_running() for child in children)
    rest = model(tmp_path, plain=True)
    costs = rest.costs([elementwise(n, s) for n, s in (("a", 64), ("b", 65), ("c", 66))], here())
    assert set(costs) == {"a", "b", "c"} and rest.runs == 1


@pytest.mark.parametrize("times", [[], None, [1.0, float("nan")], [0.0], [-1.0], ["1"], [True]])
def test_what_is_no_time_is_refused(times: object) -> None:
    with pytest.raises(NotMeasured):
        timing_of(times)
    assert timing_of([3.0, 1.0, 2.0, 1.5]) == Timing(1.0, 0.5)


def test_only_tensors_of_fixed_shape_can_be_made_up() -> None:
    assert parameters(elementwise("k", 7).func) == [{"shape": [7], "dtype": "float32"}] * 3
    n = tvm.tirx.Var("n", "int64")
    symbolic = tvm.te.placeholder((n,), name="x")
    func = tvm.te.create_prim_func([symbolic, tvm.te.compute((n,), lambda i: symbolic[i] + 1)])
    with pytest.raises(NotMeasured, match="parameter 0"):
        parameters(func)


def test_devices_that_are_not_here(tmp_path: Path) -> None:
    kernels = [elementwise("k", 64)]
    absent = max(available_cores()) + 1
    with pytest.raises(ProfileError, match=rf"'far' has cores \[{absent}\].*analytical"):
        model(tmp_path).costs(kernels, Platform((Device("far", target=LLVM, cores=(absent,)),)))
    with pytest.raises(PlatformError, match=r"'odd': TVM refuses.*no-such-kind"):
        model(tmp_path).costs(kernels, Platform((Device("odd", target={"kind": "no-such-kind"}),)))
    with pytest.raises(ProfileError, match="no device of the platform runs kernels"):
        model(tmp_path).costs(kernels, Platform((Device("switch"),)))


@pytest.mark.skipif(tvm.cuda(0).exist, reason="this machine has a GPU")
def test_a_gpu_that_is_not_here_points_to_the_analytical_model(tmp_path: Path) -> None:
    gpu = Device("gpu0", target={"kind": "cuda", "arch": "sm_90"})
    with pytest.raises(ProfileError, match=r"'gpu0'.*no cuda device number 0.*analytical"):
        model(tmp_path).costs([elementwise("k", 64)], Platform((*here().devices, gpu)))
