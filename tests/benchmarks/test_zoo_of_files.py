"""The zoo of real files, small: one export; and how answers are judged and told."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import zoo_of_files
from benchmarks.file_zoo.attempt import FileRow
from benchmarks.file_zoo.cases import FILES, FLOAT32, PACKAGES, FileCase
from benchmarks.file_zoo.contest import judged
from benchmarks.file_zoo.exported import EXPORTED
from benchmarks.file_zoo.inputs import inputs_of
from benchmarks.file_zoo.packages import file_of


def test_an_export_comes_in_is_right_and_is_timed_beside_onnx_runtime(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    given = ["--small", "--rows", str(rows), "--cache", str(tmp_path)]
    assert zoo_of_files.main(given) == 0
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert {row["name"]: row["outcome"] for row in found} == dict.fromkeys(
        zoo_of_files.SMALL, "right"
    )
    for row in found:
        assert 0 <= row["error"] < FLOAT32
        assert min(row["partition_s"], row["ours_s"], row["runtime_s"]) > 0
    # What the rows have is not tried again.
    text = rows.read_text()
    assert zoo_of_files.main(given) == 0 and rows.read_text() == text


def test_there_are_files_of_sixteen_packages_and_thirty_exports_at_least() -> None:
    assert {case.source for case in FILES} == set(PACKAGES) and len(PACKAGES) >= 16
    names = [case.name for case in (*FILES, *EXPORTED)]
    assert len(names) == len(set(names))
    assert sum(case.source == "torch" for case in EXPORTED) >= 30
    assert set(zoo_of_files.SMALL) < set(names)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        ([1.0, 2.0, np.nan], "right"),
        ([1.0, 2.001, np.nan], "right"),
        ([1.0, 2.01, np.nan], "wrong"),
        ([1.0, 2.0, 3.0], "wrong"),
        ([1.0, np.inf, np.nan], "wrong"),
        ([1.0, 2.0], "wrong"),
    ],
)
def test_an_output_is_right_within_a_share_of_its_greatest_value(
    found: list[float], outcome: str
) -> None:
    expected = np.array([1.0, 2.0, np.nan], np.float32)
    case = FileCase("a", "", "a.onnx")
    assert judged(case, [expected], [np.array(found, np.float32)]).outcome == outcome
    assert judged(case, [expected], [np.array(found, np.float64)]).outcome == "wrong"
    assert judged(case, [expected, expected], [expected]).outcome == "wrong"


def test_the_tail_of_a_sigmoid_may_differ_as_onnx_runtime_does_from_itself() -> None:
    case, expected = FileCase("a", "", "a.onnx"), np.array([6e-7], np.float32)
    assert judged(case, [expected], [expected + np.float32(1e-7)]).outcome == "right"
    assert judged(case, [expected], [expected + np.float32(3e-7)]).outcome == "wrong"


def test_whole_numbers_must_be_equal() -> None:
    case, expected = FileCase("a", "", "a.onnx"), np.array([2**40, 1])
    assert judged(case, [expected], [expected.copy()]).outcome == "right"
    assert judged(case, [expected], [expected + 1]).outcome == "wrong"


def test_inputs_have_the_sizes_and_bounds_that_the_case_says() -> None:
    case = FileCase("a", "", "a.onnx", {"x": (2, 5)}, {"sr": 16000}, {"ids": 3})
    declared = [
        SimpleNamespace(name="x", type="tensor(float)", shape=["n", 5]),
        SimpleNamespace(name="sr", type="tensor(int64)", shape=[]),
        SimpleNamespace(name="ids", type="tensor(int32)", shape=[1, 100]),
    ]
    found = inputs_of(case, Path("nowhere.onnx"), declared)
    assert found["x"].shape == (2, 5) and found["x"].dtype == np.float32
    assert found["sr"] == 16000 and found["sr"].dtype == np.int64
    assert set(found["ids"].ravel()) == {0, 1, 2} and found["ids"].dtype == np.int32


def test_names_that_lead_out_of_a_packages_folder_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "packages" / "silero-vad"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "silero.whl", "w") as wheel:
        wheel.writestr("silero_vad/silero_vad.onnx", b"model")
        wheel.writestr("../../evil/silero_vad.onnx", b"evil")
    from benchmarks.file_zoo import packages

    found = dict(packages._models_in(folder / "silero.whl"))
    assert found == {"silero_vad/silero_vad.onnx": b"model"}
    (folder / "silero_vad").mkdir()
    (folder / "silero_vad" / "silero_vad.onnx").write_bytes(b"model")
    (folder / ".complete").touch()
    case = next(case for case in FILES if case.name == "silero-vad/silero_vad")
    assert file_of(case, tmp_path).read_bytes() == b"model"


def test_the_table_counts_and_names_the_worst() -> None:
    right = FileRow("a", "torch", "right", ours_s=2.0, runtime_s=1.0, error=0.0)
    fast = FileRow("b", "torch", "right", ours_s=0.5, runtime_s=1.0, error=0.0)
    refused = FileRow("c", "torch", "refused", "ModelError: no LSTM")
    text = zoo_of_files.table([right, fast, refused])
    assert "3 files: 2 right, 1 refused" in text
    assert "geometric mean 1.00; worst: a 2.00, b 0.50" in text
    assert "c: ModelError: no LSTM" in zoo_of_files.refusals([right, refused])
