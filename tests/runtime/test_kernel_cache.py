"""Compiled modules: found again, by everything that decides their bytes; and what goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm

from tests.models import placed, two_cpus
from tvm_hetero.errors import ArtifactError
from tvm_hetero.passes.split_segments import split_segments
from tvm_hetero.runtime import kernel_cache
from tvm_hetero.runtime.kernel_cache import compile_module, load_library
from tvm_hetero.targets import device_target

BIG, LITTLE = (device_target(device) for device in two_cpus().devices)


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return split_segments(placed(1)).modules[0]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tvm.IRModule]:
    """Every module that is really compiled from now on."""
    seen: list[tvm.IRModule] = []
    original = tvm.compile

    def counting(mod, target, **options):
        seen.append(mod)
        return original(mod, target, **options)

    monkeypatch.setattr(tvm, "compile", counting)
    return seen


def leftovers(cache: Path) -> list[Path]:
    return [p for p in (cache / "kernels").iterdir() if p.suffix != ".so"]


def test_an_equal_module_is_compiled_once(own_cache, module, compiled):
    first = compile_module(module, BIG)
    again = compile_module(split_segments(placed(1)).modules[0], BIG)
    assert first == again
    assert len(compiled) == 1
    assert leftovers(own_cache) == []


def test_another_target_placement_or_version_is_another_library(
    own_cache, module, compiled, monkeypatch
):
    paths = {compile_module(module, BIG), compile_module(module, LITTLE)}
    paths.add(compile_module(split_segments(placed(2)).modules[0], BIG))
    monkeypatch.setattr(kernel_cache, "__version__", "9.9.9")
    paths.add(compile_module(module, BIG))
    assert len(paths) == len(compiled) == 4


def test_a_changed_schedule_is_compiled_anew(own_cache, module, compiled, monkeypatch):
    first = compile_module(module, BIG)
    monkeypatch.setattr(kernel_cache, "schedule_kernel", lambda func, target: func)
    assert compile_module(module, BIG) != first
    assert len(compiled) == 2


@pytest.mark.parametrize("error", [RuntimeError("no such intrinsic"), OSError(28, "No space")])
def test_what_the_compiler_says_is_quoted_and_nothing_is_left(
    own_cache, module, monkeypatch, error
):
    def failing(mod, target, **options):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(tvm, "compile", failing)
        with pytest.raises(ArtifactError, match=r"does not compile for .*(intrinsic|space)"):
            compile_module(module, BIG)
    assert leftovers(own_cache) == []
    assert compile_module(module, BIG).is_file(), "the next call works"


def test_an_interrupt_comes_through_and_leaves_nothing(own_cache, module, monkeypatch):
    def interrupted(mod, target, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tvm, "compile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compile_module(module, BIG)
    assert leftovers(own_cache) == []


def test_a_damaged_library_is_refused(tmp_path):
    (tmp_path / "broken.so").write_bytes(b"\x7fELF and nothing else")
    with pytest.raises(ArtifactError, match=r"broken\.so: the library does not load"):
        load_library(tmp_path / "broken.so")
