"""Libraries, kernel by kernel: whole, equal on any number of cores, clean when one fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.cost_models.kernel_samples import elementwise
from tvm_hetero.compiler import kernel_objects, linking, parallel_compile
from tvm_hetero.compiler.kernel_cache import kernel_library
from tvm_hetero.compiler.linking import export_library
from tvm_hetero.errors import ArtifactError
from tvm_hetero.executor.kernel_library import load_kernels
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.platform import Device

DEVICE = Device("cpu", target={"kind": "llvm"})
COUNT = 4


@pytest.fixture(scope="module")
def many() -> dict[str, tvm.tirx.PrimFunc]:
    return {f"twice_{n}": elementwise(f"twice_{n}", 16 + n).func for n in range(COUNT)}


@pytest.fixture
def fails_at(monkeypatch):
    """Make the n-th kernel that is compiled fail."""
    original = kernel_objects.build

    def fail(number: int, error: BaseException) -> None:
        turns = iter(range(COUNT + 1))

        def build(mod, target):
            if next(turns) == number:
                raise error
            return original(mod, target)

        monkeypatch.setattr(kernel_objects, "build", build)

    return fail


def test_all_kernels_are_in_the_library_and_compute(own_cache, many):
    library = load_kernels(kernel_library(many, DEVICE))
    for n, symbol in enumerate(many):
        values = np.arange(16 + n, dtype="float32")
        given, out = tvm.runtime.tensor(values), tvm.runtime.empty((16 + n,), "float32")
        library.get_function(symbol)(given, given, out)
        np.testing.assert_array_equal(out.numpy(), 2 * values)


def test_the_library_does_not_depend_on_the_number_of_cores(own_cache, monkeypatch, many):
    path = kernel_library(many, DEVICE)
    on_all = path.read_bytes()
    path.unlink()
    monkeypatch.setattr(parallel_compile, "cores_at_once", lambda: 1)
    assert kernel_library(many, DEVICE) == path
    assert path.read_bytes() == on_all


@pytest.mark.parametrize("number", range(COUNT))
def test_whichever_kernel_fails_nothing_is_left_and_the_next_call_works(
    own_cache, fails_at, monkeypatch, many, number
):
    fails_at(number, RuntimeError("no such intrinsic"))
    with pytest.raises(ArtifactError, match=r"do not compile for .*intrinsic"):
        kernel_library(many, DEVICE)
    assert list((own_cache / "kernels").iterdir()) == []
    fails_at(COUNT, RuntimeError("never"))
    assert kernel_library(many, DEVICE).is_file()


def test_an_interrupt_begins_no_further_kernel_and_leaves_nothing(
    own_cache, fails_at, monkeypatch, many
):
    monkeypatch.setattr(parallel_compile, "cores_at_once", lambda: 1)
    fails_at(0, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        kernel_library(many, DEVICE)
    assert list((own_cache / "kernels").iterdir()) == []


def test_a_linker_that_fails_is_quoted(own_cache, monkeypatch, many):
    def link(objects, path, target, names):
        assert len(objects) == len(names) == COUNT
        raise RuntimeError("ld: cannot find -lm")

    monkeypatch.setattr(kernel_objects, "link", link)
    with pytest.raises(ArtifactError, match="cannot find -lm"):
        kernel_library(many, DEVICE)
    assert list((own_cache / "kernels").iterdir()) == []


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(own_cache, many, monkeypatch):
    """LLVM by itself ends the process: it says "IO failure on output stream"."""
    original = kernel_objects.write_object
    monkeypatch.setattr(
        kernel_objects, "write_object", lambda code, path: original(code, Path("/dev/full"))
    )
    with pytest.raises(ArtifactError, match=r"cannot be written to .*No space left.*make room"):
        kernel_library(many, DEVICE)
    assert list((own_cache / "kernels").iterdir()) == []
    assert list((own_cache / "objects").iterdir()) == []


def test_equal_kernels_are_one_object_under_all_their_names(own_cache, many):
    func = next(iter(many.values()))
    library = load_kernels(kernel_library({"one": func, "two": func}, DEVICE))
    assert len(list((own_cache / "objects").glob("*.o"))) == 1
    for symbol in ("one", "two"):
        given, out = tvm.runtime.tensor(np.ones(16, "float32")), tvm.runtime.empty((16,), "float32")
        library.get_function(symbol)(given, given, out)
        np.testing.assert_array_equal(out.numpy(), 2.0)


def test_another_library_finds_the_objects_of_its_kernels(own_cache, many, fails_at):
    kernel_library(many, DEVICE)
    fails_at(0, RuntimeError("compiled again"))
    few = {f"renamed_{symbol}": func for symbol, func in list(many.items())[:2]}
    assert load_kernels(kernel_library(few, DEVICE)).get_function("renamed_twice_1") is not None


def test_profilings_libraries_are_written_with_the_same_care(many, monkeypatch, tmp_path):
    target = tvm.target.Target({"kind": "llvm"})
    name, func = next(iter(many.items()))
    built = build(tvm.IRModule({name: func.with_attr("global_symbol", name)}), target)
    original = linking.write_object
    monkeypatch.setattr(
        linking, "write_object", lambda code, path: original(code, Path("/dev/full"))
    )
    with pytest.raises(OSError, match="No space left"):
        export_library(built, tmp_path / "kernels.so", target)
    assert list(tmp_path.iterdir()) == []
