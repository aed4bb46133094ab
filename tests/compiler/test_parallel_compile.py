"""Libraries compiled in groups: whole, equal on any number of cores, and clean when one fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cost_models.kernel_samples import elementwise
from tvm_hetero.compiler import linking, parallel_compile
from tvm_hetero.compiler.kernel_cache import kernel_library
from tvm_hetero.compiler.linking import export_library
from tvm_hetero.compiler.parallel_compile import deal
from tvm_hetero.errors import ArtifactError
from tvm_hetero.executor.kernel_library import load_kernels
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.platform import Device

DEVICE = Device("cpu", target={"kind": "llvm"})
GROUPS = 4


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Little work is worth a group here: two of the kernels below."""
    monkeypatch.setattr(parallel_compile, "_GROUP", 20_000)


@pytest.fixture(scope="module")
def many() -> dict[str, tvm.tirx.PrimFunc]:
    """Kernels that are too many for one object."""
    return {f"twice_{n}": elementwise(f"twice_{n}", 16 + n).func for n in range(2 * GROUPS)}


@pytest.fixture
def fails_at(monkeypatch):
    """Make the n-th group that is compiled fail."""
    original = parallel_compile.build

    def fail(number: int, error: BaseException) -> None:
        turns = iter(range(GROUPS + 1))

        def build(mod, target):
            if next(turns) == number:
                raise error
            return original(mod, target)

        monkeypatch.setattr(parallel_compile, "build", build)

    return fail


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text("abc", min_size=1), st.integers(0, 300_000), max_size=60))
def test_every_kernel_is_in_one_group_and_no_group_has_much_more_than_another(lengths):
    groups = deal({symbol: "x" * length for symbol, length in lengths.items()})
    assert sorted(symbol for group in groups for symbol in group) == sorted(lengths)
    works = [sum(10_000 + lengths[symbol] for symbol in group) for group in groups]
    longest = max((10_000 + length for length in lengths.values()), default=0)
    assert max(works) - min(works) <= longest
    assert deal({s: "x" * lengths[s] for s in reversed(list(lengths))}) == groups


def test_little_work_is_one_group():
    assert deal({"b": "x" * 1000, "a": "x" * 1000}) == [["a", "b"]]
    assert deal({}) == [[]]


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
    monkeypatch.setattr(parallel_compile, "available_cores", lambda: frozenset({0}))
    assert kernel_library(many, DEVICE) == path
    assert path.read_bytes() == on_all


@pytest.mark.parametrize("number", range(GROUPS))
def test_whichever_group_fails_nothing_is_left_and_the_next_call_works(
    own_cache, fails_at, monkeypatch, many, number
):
    fails_at(number, RuntimeError("no such intrinsic"))
    with pytest.raises(ArtifactError, match=r"do not compile for .*intrinsic"):
        kernel_library(many, DEVICE)
    assert list((own_cache / "kernels").iterdir()) == []
    fails_at(GROUPS, RuntimeError("never"))
    assert kernel_library(many, DEVICE).is_file()


def test_an_interrupt_begins_no_further_group_and_leaves_nothing(
    own_cache, fails_at, monkeypatch, many
):
    monkeypatch.setattr(parallel_compile, "available_cores", lambda: frozenset({0}))
    fails_at(0, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        kernel_library(many, DEVICE)
    assert list((own_cache / "kernels").iterdir()) == []


def test_a_linker_that_fails_is_quoted(own_cache, monkeypatch, many):
    def link(objects, path, target):
        assert len(objects) == GROUPS
        raise RuntimeError("ld: cannot find -lm")

    monkeypatch.setattr(parallel_compile, "link", link)
    with pytest.raises(ArtifactError, match="cannot find -lm"):
        kernel_library(many, DEVICE)
    assert list((own_cache / "kernels").iterdir()) == []


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(own_cache, many, monkeypatch):
    """LLVM by itself ends the process: it says "IO failure on output stream"."""
    original = parallel_compile.write_object
    monkeypatch.setattr(
        parallel_compile, "write_object", lambda built, path: original(built, Path("/dev/full"))
    )
    with pytest.raises(ArtifactError, match=r"cannot be written to .*No space left.*make room"):
        kernel_library(many, DEVICE)
    assert list((own_cache / "kernels").iterdir()) == []


def test_profilings_libraries_are_written_with_the_same_care(many, monkeypatch, tmp_path):
    target = tvm.target.Target({"kind": "llvm"})
    name, func = next(iter(many.items()))
    built = build(tvm.IRModule({name: func.with_attr("global_symbol", name)}), target)
    original = linking.write_object
    monkeypatch.setattr(
        linking, "write_object", lambda built, path: original(built, Path("/dev/full"))
    )
    with pytest.raises(OSError, match="No space left"):
        export_library(built, tmp_path / "kernels.so", target)
    assert list(tmp_path.iterdir()) == []
