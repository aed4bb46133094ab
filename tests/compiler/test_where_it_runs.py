"""No compiler, and file systems that take no code: said before work is done, in plain words."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import tvm

from tests.cost_models.kernel_samples import elementwise, here
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.compiler.linking import linker_of
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.errors import ArtifactError, PlatformError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.util.code_folder import code_folder, is_noexec

_MS_NOEXEC = 8


@pytest.fixture
def noexec(tmp_path: Path) -> Iterator[Path]:
    """A folder of a file system that is mounted noexec."""
    folder = tmp_path / "noexec"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    name = os.fsencode(folder)
    if libc.mount(b"tmpfs", name, b"tmpfs", _MS_NOEXEC, b"size=64m") != 0:
        pytest.skip("mounting needs root")
    yield folder
    assert libc.umount2(name, 2) == 0


@pytest.fixture
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CXX", "CC"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_compiler_nothing_is_measured(
    no_compiler: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path / "cache"))
    with pytest.raises(PlatformError, match=r"no C\+\+ compiler .*on the PATH.*g\+\+.*CXX"):
        linker_of(tvm.target.Target("llvm"))
    costs = ProfiledCosts(CostStore(tmp_path / "costs.sqlite"))
    with pytest.raises(PlatformError, match=r"no C\+\+ compiler"):
        costs.costs([elementwise("a", 64)], here())
    assert costs.runs == 0


@pytest.mark.slow
def test_kernels_are_measured_where_code_can_be_loaded(
    noexec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(noexec))
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path / "cache"))
    assert is_noexec(noexec) and code_folder() == tmp_path / "cache"
    costs = ProfiledCosts(CostStore(tmp_path / "costs.sqlite"))
    assert list(costs.costs([elementwise("a", 64)], here())) == ["a"]
    monkeypatch.setenv("TVM_HETERO_CACHE", str(noexec / "cache"))
    with pytest.raises(UsageError, match=r"mounted noexec; set TMPDIR"):
        code_folder()


def test_an_artifact_where_no_code_can_be_loaded(executable: Executable, noexec: Path) -> None:
    executable.save(noexec / "net.hetero")
    with pytest.raises(ArtifactError, match=r"mounted noexec, .*; move it"):
        Executor(load_artifact(noexec / "net.hetero"))
