"""A few artifacts of the harness; `make fuzz` draws as many as there is time for."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests.cpp.cpp_build import example_program
from tests.fuzz import model_folders
from tests.fuzz.artifacts import (
    Whole,
    attempt,
    load_in_cpp,
    load_in_python,
    seal,
    trap,
    whole_of,
)
from tests.fuzz.limited import FAULT, REFUSED
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.util import leftovers


@pytest.fixture(scope="module")
def whole(executable: Executable, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    path = tmp_path_factory.mktemp("whole") / "net.hetero"
    executable.save(path)
    return whole_of(path, example_program())


def test_there_is_an_answer_to_each(whole: Whole) -> None:
    counts: Counter[str] = Counter()
    # The last two: an argument of a kernel was doubled, which crashed; words that the package
    # safetensors quotes turned a terminal's line around.
    for seed in (0, 3, 9, 20, 36, 1795827269, 1795826845):
        for loader, verdict in zip(("Python", "C++"), attempt(seed, whole), strict=True):
            assert verdict.status != FAULT, f"seed {seed}, {loader}: {verdict.told}"
            counts[loader + verdict.status] += 1
    assert len(counts) == 4  # each takes some and refuses some


def test_a_changed_library_is_refused_before_it_is_loaded(whole: Whole, tmp_path: Path) -> None:
    """With a hash that fits it is loaded, being trusted; so the harness would notice."""
    folder = Path(shutil.copytree(whole.folder, tmp_path / "net.hetero"))
    (folder / "big.so").write_bytes(trap())
    for loads in (load_in_python, load_in_cpp):
        assert loads(whole, folder, False).status == REFUSED
        shutil.rmtree(tmp_path / "inputs", ignore_errors=True)
    seal(folder)
    assert load_in_python(whole, folder, True).told == "no answer"
    assert "status 99" in load_in_cpp(whole, folder, True).told


def test_nothing_is_left_behind(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    trap.cache_clear()
    for seed in (6, 17):
        attempt(seed, whole)
    assert trap.cache_info().currsize
    model_folders._decoder.cache_clear()
    model_folders.attempt(0)
    # What several share is removed at the end of the process.
    assert set(tmp_path.iterdir()) <= leftovers._MADE.keys()
    model_folders._decoder.cache_clear()
