"""What the package makes of fixed inputs is what it made before, and a change is found.

If `test_all_that_is_made_is_what_was_made_before` fails after a change that was meant,
`benchmarks.replay` says how to look at it and how to write ``tests/data/replay.json`` anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import replay

RECORDED = Path(__file__).parents[1] / "data" / "replay.json"
QUICK = ["--small", "--only", "gnn"]
ONE = "schedule/gnn/diviml/latency-1/heft"


def changed(folder: Path, rows: dict[str, str | None]) -> Path:
    """The recorded file with another SHA-256 of some names, or without them."""
    merged = json.loads(RECORDED.read_text(encoding="utf-8")) | rows
    path = folder / "changed.json"
    path.write_text(json.dumps({n: row for n, row in merged.items() if row}), encoding="utf-8")
    return path


def test_all_that_is_made_is_what_was_made_before(capsys):
    code = replay.main(["--small", "--compare", str(RECORDED)])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert f"all {len(json.loads(RECORDED.read_text()))} are the same" in printed


def test_a_text_that_is_another_one_or_new_or_gone_is_named(tmp_path, capsys):
    new = ONE.replace("heft", "peft")
    file = changed(tmp_path, {ONE: "0" * 64, new: None, "plan/gnn/none": "0" * 64})
    assert replay.main([*QUICK, "--compare", str(file)]) == 1
    assert sorted(capsys.readouterr().out.splitlines()[1:]) == sorted(
        [f"differs: {ONE}", f"new: {new}", "missing: plan/gnn/none", "3 differ"]
    )


def test_only_names_with_the_word_are_made_and_compared(capsys):
    assert replay.main([*QUICK, "--compare", str(RECORDED)]) == 0
    count = sum("/gnn/" in name for name in json.loads(RECORDED.read_text()))
    assert f"all {count} are the same" in capsys.readouterr().out


def test_texts_are_written_as_files_by_their_names(tmp_path):
    found = replay.digests(lambda: [("plan/net/latency", "steps\n")], tmp_path)
    assert (tmp_path / "plan/net/latency.txt").read_text() == "steps\n"
    assert list(found) == ["plan/net/latency"]


def test_two_texts_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two texts are named 'a'"):
        replay.digests(lambda: [("a", "1"), ("a", "1")], None)


def test_a_file_that_is_not_there_is_refused_before_the_work(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        replay.main(["--compare", str(tmp_path / "nowhere.json")])
