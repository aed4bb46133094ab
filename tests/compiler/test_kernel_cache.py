"""Compiled kernels: found again, by everything that decides their bytes; and what goes wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from tvm import tirx

from tests.models import (
    as_schedule,
    branchy,
    lowered,
    placed,
    random_schedule,
    two_cpus,
    unit_problem,
)
from tvm_hetero.compiler import kernel_cache, kernel_objects
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.kernel_cache import kernel_library
from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import ArtifactError
from tvm_hetero.executor.kernel_library import load_kernels
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.kernel_symbols import network_kernels
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.platform import Device
from tvm_hetero.problem import Cost

BIG, LITTLE = two_cpus().devices
COST = Cost(((1, 1e-3),))


def kernels_of(seed: int, device: Device) -> dict[str, tirx.PrimFunc]:
    """Some kernels of the small model for a device, from one of its placements."""
    module = placed(seed)
    tasks = sorted(read_main(module).task_ids)[-4:]
    return network_kernels(module, device, dict.fromkeys(tasks, COST))


@pytest.fixture(scope="module")
def kernels() -> dict[str, tirx.PrimFunc]:
    return kernels_of(1, BIG)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tvm.IRModule]:
    """Every module that is really compiled from now on."""
    seen: list[tvm.IRModule] = []
    original = tvm.tirx.build

    def counting(mod, **how):
        seen.append(mod)
        return original(mod, **how)

    monkeypatch.setattr(tvm.tirx, "build", counting)
    return seen


def leftovers(cache: Path) -> list[Path]:
    return [p for p in (cache / "kernels").iterdir() if p.suffix not in (".so", ".sha256")]


def test_equal_kernels_are_compiled_once_whatever_the_placement(own_cache, kernels, compiled):
    first = kernel_library(kernels, BIG)
    assert kernel_library(kernels_of(2, BIG), BIG) == first
    assert kernel_library(dict(reversed(kernels.items())), replace(BIG, name="twin")) == first
    assert len(compiled) == len(kernels)
    assert leftovers(own_cache) == []


def test_what_was_compiled_to_measure_a_network_is_what_is_built(own_cache, compiled):
    module = lowered(branchy(), two_cpus())
    tasks = read_main(module).task_ids
    before = {
        device.name: kernel_library(
            network_kernels(module, device, dict.fromkeys(tasks, COST)), device
        )
        for device in (BIG, LITTLE)
    }
    measured = len(compiled)
    problem = unit_problem(module, two_cpus())
    built = build(annotate_devices(module, problem, random_schedule(problem, 1)))
    assert dict(built.variants["partition"].libraries) == before
    assert len(built.variants) == 2
    everything = [(task, "little", (0,)) for task in problem.graph.topological_order]
    alone = annotate_devices(module, problem, as_schedule(problem, everything))
    assert build(alone, single=False).variants["partition"].libraries == {
        "little": before["little"]
    }
    assert len(compiled) == measured > 0


def test_a_library_has_a_kernel_for_every_call(own_cache, kernels):
    library = load_kernels(kernel_library(kernels, LITTLE))
    for symbol in kernels:
        assert library.get_function(symbol) is not None


def test_another_target_kernel_or_version_is_another_library(
    own_cache, kernels, compiled, monkeypatch
):
    paths = {kernel_library(kernels, BIG), kernel_library(kernels, LITTLE)}
    paths.add(kernel_library(dict(list(kernels.items())[1:]), BIG))
    assert len(compiled) == 2 * len(kernels), "a kernel is compiled once for each target"
    for module in (kernel_cache, kernel_objects):
        monkeypatch.setattr(module, "__version__", "9.9.9")
    paths.add(kernel_library(kernels, BIG))
    assert len(paths) == 4
    assert len(compiled) == 3 * len(kernels)


def test_a_changed_schedule_is_compiled_anew(own_cache, kernels, compiled, monkeypatch):
    first = kernel_library(kernels, BIG)
    monkeypatch.setattr(kernel_cache, "schedule_kernel", lambda func, target: func)
    assert kernel_library(kernels, BIG) != first
    assert len(compiled) == 2 * len(kernels)


def test_a_kernel_is_scheduled_once_for_equal_targets(kernels):
    target, known = device_target(BIG), {}
    first = kernel_cache.schedule_kernels(kernels, target, known)
    again = kernel_cache.schedule_kernels(kernels, target, known)
    assert all(first[symbol].same_as(again[symbol]) for symbol in kernels)
    symbol, other = list(kernels)[:2]
    changed = kernel_cache.schedule_kernels({symbol: kernels[other]}, target, known)
    assert not changed[symbol].same_as(first[symbol]), "the name alone does not make the kernel"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("no such intrinsic"), r"do not compile for .*intrinsic"),
        (OSError(28, "No space"), r"cannot be written to .*No space.*make room"),
    ],
)
def test_what_the_compiler_says_is_quoted_and_nothing_is_left(
    own_cache, kernels, monkeypatch, error, told
):
    def failing(mod, **how):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(tvm.tirx, "build", failing)
        with pytest.raises(ArtifactError, match=told):
            kernel_library(kernels, BIG)
    assert leftovers(own_cache) == []
    assert kernel_library(kernels, BIG).is_file(), "the next call works"


def test_an_interrupt_comes_through_and_leaves_nothing(own_cache, kernels, monkeypatch):
    def interrupted(mod, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(tvm.tirx, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel_library(kernels, BIG)
    assert leftovers(own_cache) == []


def test_each_way_to_compute_a_kernel_has_a_symbol_of_its_own():
    module = lowered(branchy(), two_cpus())
    tasks = read_main(module).task_ids
    ways = dict(
        zip(tasks, [COST, replace(COST, implementation="default")] * len(tasks), strict=False)
    )
    symbols = network_kernels(module, BIG, ways)
    assert len(symbols) == len(tasks)
    assert sum(symbol.endswith("__default") for symbol in symbols) == len(tasks) // 2
    assert len(network_kernels(module, BIG, dict(list(ways.items())[:3]))) == 3


def mapped(stem: str) -> set[str]:
    """The numbers of the files of that name in this process's memory."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        return {line.split()[4] for line in file if stem in line}


def test_loaded_twice_code_is_shared_unless_it_keeps_functions_of_others(tmp_path, kernels):
    path = kernel_library(kernels, BIG)
    plain = [load_kernels(path) for _ in range(2)]
    assert len(mapped(path.stem)) == 1
    # As a GPU's library has device code in it, this one has another module.
    executable = tvm.compile(lowered(branchy(), two_cpus()), "llvm")
    executable.export_library(str(tmp_path / "with_imports.so"))
    others = [load_kernels(tmp_path / "with_imports.so") for _ in range(2)]
    assert all(library.imports for library in others)
    assert len(mapped("own.with_imports")) == 2
    assert plain[0] is not plain[1]


def test_a_damaged_library_is_refused(tmp_path):
    (tmp_path / "broken.so").write_bytes(b"\x7fELF and nothing else")
    with pytest.raises(ArtifactError, match=r"broken\.so: the library is damaged"):
        load_kernels(tmp_path / "broken.so")


@pytest.mark.parametrize("room", ["kernels", "objects"])
def test_what_was_damaged_in_the_cache_is_compiled_again(own_cache, kernels, compiled, room):
    path = kernel_library(kernels, BIG)
    good, count = path.read_bytes(), len(compiled)
    suffix = ".so" if room == "kernels" else ".o"
    for file in (own_cache / room).iterdir():
        if file.suffix == suffix:
            file.write_bytes(file.read_bytes()[:100])
    if room == "objects":
        path.unlink()
    assert kernel_library(kernels, BIG) == path
    assert len(path.read_bytes()) == len(good)
    assert load_kernels(path).get_function(next(iter(kernels))) is not None
    assert len(compiled) == count + (0 if room == "kernels" else len(kernels))
