"""The benchmark of building, small."""

from __future__ import annotations

import os

import pytest

from benchmarks import building
from tvm_hetero.compiler import kernel_objects


def test_a_model_is_compiled_on_one_core_and_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cores: list[int] = []
    original = kernel_objects.build

    def build(mod, target):
        cores.append(len(os.sched_getaffinity(0)))
        return original(mod, target)

    monkeypatch.setattr(kernel_objects, "build", build)
    before = os.sched_getaffinity(0), dict(os.environ)
    [row] = building.main(["--small"])
    assert row.kernels > 3 and set(row.seconds) == {"one", "all"}
    assert row.gain > 0
    # With an empty cache each time: as much is compiled the second time.
    half = len(cores) // 2
    assert half >= 2 and cores == [1] * half + [len(before[0])] * half
    assert (os.sched_getaffinity(0), dict(os.environ)) == before
