from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tvm_hetero.cli.shared.measure import (
    largest_difference,
    measure_in_turns,
    read_inputs,
    write_outputs,
)
from tvm_hetero.errors import ArtifactError, UsageError
from tvm_hetero.report.run.run_table import Difference


def test_turns_are_taken_after_the_warmup() -> None:
    calls: list[tuple[str, int]] = []

    def runner(name: str) -> object:
        def run(count: int) -> list[float]:
            calls.append((name, count))
            return [float(len(calls))] * count

        return run

    measured = measure_in_turns({"a": runner("a"), "b": runner("b")}, 7, 3)  # type: ignore[dict-item]
    turns = [("a", 1), ("a", 5), ("b", 1), ("b", 5), ("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert calls == [("a", 3), ("b", 3), *turns]
    assert {name: each.count for name, each in measured.items()} == {"a": 7, "b": 7}
    # Neither the warmup (1.0) nor the first run of a turn (3.0) counts.
    assert measured["a"].min == 4.0


def test_arrays_round_trip_under_any_name(tmp_path: Path) -> None:
    arrays = {"gpu_0/softmax_1": np.arange(6.0).reshape(2, 3), "file": np.int64([1, 2])}
    write_outputs(tmp_path / "y.npz", arrays)
    again = read_inputs(tmp_path / "y.npz")
    assert list(again) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)
        assert again[name].dtype == array.dtype


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut"])
def test_inputs_that_are_no_arrays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.npz: cannot be read .* make one") as error:
        read_inputs(tmp_path / "x.npz")
    assert "pickle" not in str(error.value)


@pytest.mark.parametrize("name", ["\u202enpz.x", "x\x1b[2J", "x" * 5000])
def test_names_in_an_archive_are_shown_safely(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr(f"{name}.npy", b"\x93NUMPY no more")
    with pytest.raises(UsageError, match="is no array of plain numbers") as error:
        read_inputs(tmp_path / "x.npz")
    assert str(error.value).isprintable() and len(str(error.value)) < 500


def test_an_archive_with_a_damaged_array(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(1000))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[200:300] = bytes(100)
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.npz: cannot be read"):
        read_inputs(tmp_path / "x.npz")


@pytest.mark.parametrize(("at", "value"), [(6, 1), (8, 99)])
def test_an_archive_that_is_encrypted_or_packed_unknown_ways(
    tmp_path: Path, at: int, value: int
) -> None:
    np.savez(tmp_path / "x.npz", x=np.arange(10))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[at] = value
    content[content.rindex(b"PK\x01\x02") + at + 2] = value
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.npz: cannot be read"):
        read_inputs(tmp_path / "x.npz")


def test_pickled_inputs_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(UsageError, match="'x' is no array of plain numbers"):
        read_inputs(tmp_path / "x.npz")


def test_one_array_is_not_inputs_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(UsageError, match=r"\.npz"):
        read_inputs(tmp_path / "x.npy")


def test_largest_difference() -> None:
    ours = [np.float32([1, 2]), np.float32([[5]])]
    got = largest_difference(ours, [np.float32([1, 2.5]), np.float32([[4]])])
    assert got == Difference(1.0, 0.25)
    assert largest_difference([np.zeros(0)], [np.zeros(0)]) == Difference(0.0, 0.0)
    assert largest_difference([np.ones(1)], [np.zeros(1)]).relative == math.inf


@pytest.mark.parametrize(
    "theirs", [[], [np.zeros(3)], [np.array([0.0, math.nan])], [np.array([0.0, math.inf])]]
)
def test_outputs_that_cannot_be_compared(theirs: list[np.ndarray]) -> None:
    with pytest.raises(ArtifactError):
        largest_difference([np.zeros(2)], theirs)
