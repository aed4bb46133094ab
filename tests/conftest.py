"""Shared by all tests: a cache of their own, and threads that do not get in each other's way."""

from __future__ import annotations

import gc
import inspect
import os
import signal
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:  # TVM is not imported before a test needs it
    from tvm_hetero.artifact.executable import Executable

# No deadline per example: on a shared machine it would fail by chance. And the same examples in
# every run, since what lands should not depend on luck; `make fuzz` draws new ones, and more.
settings.register_profile("landing", deadline=None, derandomize=True, max_examples=16)
settings.register_profile("fuzz", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "landing"))

# Measured costs and compiled kernels outlive a test run, so that the second one is quicker; but
# they are no part of the user's cache. Set before anything imports the package.
_CACHE = Path(__file__).parent.parent / "build" / "test-cache"
os.environ.setdefault("TVM_HETERO_CACHE", str(_CACHE))
os.environ.setdefault("OMP_NUM_THREADS", "1")

# While tests are collected (until `pytest_runtestloop`): nothing is thrown away then.
gc.disable()

# A shell that starts us in the background has Ctrl-C ignored, and nohup a closed terminal, for us
# and for our children; some tests send these.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


_getmodule = inspect.getmodule


def _getmodule_of_files(thing: Any, _filename: str | None = None) -> ModuleType | None:
    """`inspect.getmodule`, which looks through all modules for code that has no file, in vain.

    TVM's parser of scripts asks for the whole stack at each function, and below pytest many of its
    frames are importlib's, which is frozen: collecting `tests/passes` took 7 s instead of 1.
    """
    code = thing.f_code if isinstance(thing, FrameType) else thing
    if isinstance(code, CodeType) and code.co_filename.startswith("<"):
        return None
    return _getmodule(thing, _filename)


inspect.getmodule = _getmodule_of_files


# What takes longest begins first, so that no worker of pytest-xdist is left with it at the end.
_LONG = (
    "cpp/test_sanitizers.py", "tests/test_light_models.py", "benchmarks/test_benchmarks.py",
    "tests/test_tutorials.py", "benchmarks/test_execution.py", "cluster/test_cluster.py",
    "kernels_alone/test_choose_implementation.py", "tuning/test_tuner.py",
    "benchmarks/test_precision.py", "benchmarks/test_conformance.py",
    "cost_models/test_profiled.py", "solvers/test_run_solver.py",
    "tests/test_first_ten_minutes.py", "pipeline/test_hetero_partition.py",
    "onnx/test_importer.py", "in_network/test_costs.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, all others in their order."""
    places = {name: place for place, name in enumerate(_LONG)}
    items.sort(key=lambda item: places.get("/".join(item.path.parts[-2:]), len(_LONG)))


def pytest_collection_finish() -> None:
    """Nothing that was imported is garbage: it need not be looked at in every collection."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Also in the process that hands tests out and collects none.

    To look for garbage among all that tests have left took 3 % of their time; among what is young
    it takes 1 %, and a test that wants all of it asks for it.
    """
    gc.enable()
    gc.set_threshold(*gc.get_threshold()[:2], 100)


@pytest.fixture(scope="session")
def executable() -> Executable:
    """A small model on two devices, built; executables are immutable, so all may share it."""
    from tests.models import placed
    from tvm_hetero.compiler.build import build

    return build(placed(1))


@pytest.fixture(scope="session")
def saved(executable: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model as an artifact; it is not to be changed."""
    path = tmp_path_factory.mktemp("saved") / "net.hetero"
    executable.save(path)
    return path


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
