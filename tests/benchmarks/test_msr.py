"""benchmarks/msr.py: rows with value, bound and the best known value, and kept rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import msr
from tests.solvers.examples import problem_of, processors
from tvm_hetero.problem import Objective

PROBLEM = problem_of(
    {f"t{i}": {"p1": 0.01, "p2": 0.02} for i in range(3)},
    [("t0", "t1", 8)],
    processors(2),
    Objective("throughput"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small problems by two of the names, and results of an earlier run."""
    for name in ("throughput.Layer.bert24", "latency.Layer.gnmt"):
        PROBLEM.save(tmp_path / f"{name}_inference.problem.json")
    results = tmp_path / "msr.json"
    before = [{"problem": "latency.Layer.gnmt", "value_us": 1}, {"problem": msr.SMALLEST}]
    results.write_text(json.dumps({"rows": before}), encoding="utf-8")
    monkeypatch.setattr(msr, "RESULTS", results)
    return tmp_path


def test_a_problem_run_anew_takes_its_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--only", "throughput.*bert24", "--time-limit", "60", "--folder", str(folder)]
    (row,) = msr.main(arguments)
    assert row["value_us"] == 20_000 and row["bound_us"] <= 20_000
    assert row["above_known"] == pytest.approx(20 / 17.715 - 1)
    assert row["why"] and row["seconds"] > 0
    kept = json.loads(msr.RESULTS.read_text(encoding="utf-8"))["rows"]
    assert [own["problem"] for own in kept] == [msr.SMALLEST, "latency.Layer.gnmt"]
    assert kept[0]["value_us"] == 20_000 and kept[1]["value_us"] == 1
    assert "| throughput.Layer.bert24 | 17.715 | 20.000 | +12.90 % |" in capsys.readouterr().out


def test_by_the_processors_clock_the_seconds_are_those_that_the_command_has_used(
    folder: Path,
) -> None:
    (row,) = msr.main(["--processor", "--only", "throughput.*bert24", "--folder", str(folder)])
    assert row["clock"] == "processor" and row["value_us"] == 20_000 and row["seconds"] > 0


def test_the_small_mode_writes_nothing(folder: Path) -> None:
    before = msr.RESULTS.read_text(encoding="utf-8")
    (row,) = msr.main(["--small", "--time-limit", "60", "--folder", str(folder)])
    assert row["problem"] == msr.SMALLEST and row["value_us"] == 20_000
    assert msr.RESULTS.read_text(encoding="utf-8") == before


def test_an_answer_that_is_none_is_a_row_with_the_reason(folder: Path) -> None:
    file = folder / "broken.problem.json"
    file.write_text("{}", encoding="utf-8")
    assert "format" in msr.measure(msr.SMALLEST, file, 1.0)["error"]


def test_a_missing_file_says_what_is_looked_for_and_how_to_say_where(folder: Path) -> None:
    shutil.rmtree(folder)
    with pytest.raises(msr.MissingProblemError, match=r"no file .*bert24.*--folder"):
        msr.main(["--small", "--folder", str(folder)])


@pytest.mark.skipif(not msr.FOLDER.is_dir(), reason="the problems are not in this repository")
def test_the_smallest_problem_is_at_the_best_known_value() -> None:
    (row,) = msr.main(["--small"])
    assert row["above_known"] < 1e-3 and 0 <= row["gap"] <= 0.05


def test_committed_results_keep_what_is_promised() -> None:
    rows = json.loads((msr.ROOT / "benchmarks/results/msr.json").read_text(encoding="utf-8"))[
        "rows"
    ]
    throughput = [row for row in rows if row["problem"].startswith("throughput")]
    assert len(throughput) == 8
    for row in throughput:
        assert row["above_known"] < 1e-3, row["problem"]
        assert row["gap"] <= 0.05, row["problem"]
