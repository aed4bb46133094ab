"""Kernels compiled here and in children; those that do not compile stand alone."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import tvm

from tests.cost_models.kernel_samples import LLVM, elementwise, unbuildable
from tests.descriptors import descriptors_left
from tvm_hetero.cost_models.kernels_alone.bench import WORKER
from tvm_hetero.cost_models.kernels_alone.compile_kernels import (
    Compiled,
    _CompileJob,
    _in_child,
    compile_kernels,
)
from tvm_hetero.cost_models.store.identity import kernel_key
from tvm_hetero.errors import ProfileError
from tvm_hetero.processes.child_process import Worker

TARGET = tvm.target.Target(LLVM)
KERNELS = [elementwise(f"k{i}", 32 + i) for i in range(8)]
BROKEN = unbuildable()
FUNCS = {kernel_key(k.func): k.func for k in [*KERNELS[:5], BROKEN, *KERNELS[5:]]}


def check(compiled: Compiled) -> None:
    """All but the broken one are in the libraries, each under a name of its own."""
    assert set(compiled.failed) == {kernel_key(BROKEN.func)}
    assert set(compiled.symbols) == FUNCS.keys() - compiled.failed.keys()
    modules = [tvm.runtime.load_module(str(path)) for path in compiled.libraries]
    for symbol in compiled.symbols.values():
        assert sum(module.implements_function(symbol) for module in modules) == 1


def test_in_this_process(tmp_path: Path) -> None:
    told: list[int] = []
    check(compile_kernels(FUNCS, TARGET, tmp_path, tell=told.append))
    assert told == sorted(told) and told[-1] == len(FUNCS)
    assert compile_kernels({}, TARGET, tmp_path) == Compiled()


@pytest.mark.parametrize("lost", [False, True])
def test_children_take_a_share_and_a_lost_one_is_not_missed(tmp_path: Path, lost: bool) -> None:
    with Worker(WORKER) as child:
        if lost:
            child.close()
        check(compile_kernels(FUNCS, TARGET, tmp_path, [child]))


def test_a_child_compiles_what_it_is_asked_to(tmp_path: Path) -> None:
    """A slow parent: the child alone, through the same files."""
    with Worker(WORKER) as child:
        build = _in_child(child, TARGET)
        build({"good": KERNELS[0].func}, tmp_path / "good.so")
        assert tvm.runtime.load_module(str(tmp_path / "good.so")).implements_function("good")
        with pytest.raises(ValueError, match=r"\S"):
            build({"bad": BROKEN.func}, tmp_path / "bad.so")


def test_a_used_up_machine_is_no_fault_of_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kernel was left out by itself, and a model placed without what a device could run."""
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path / "cache"))
    compile_kernels({kernel_key(KERNELS[0].func): KERNELS[0].func}, TARGET, tmp_path)
    with descriptors_left(0), pytest.raises(ProfileError, match=r"Too many open files.*TMPDIR"):
        compile_kernels(FUNCS, TARGET, tmp_path)


def test_a_child_that_may_open_nothing_leaves_no_kernel_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path / "cache"))
    job = _CompileJob(FUNCS, tmp_path, share=4, first=0)
    with Worker(WORKER) as child:
        child.ask({"ask": "prepare"}, 60)
        resource.prlimit(child._process.pid, resource.RLIMIT_NOFILE, (3, 3))
        job.work(_in_child(child, TARGET))
    assert job.exhausted == "Too many open files"
