"""Results say when, where and of which sources they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.result_rows import read_rows, write_rows
from tvm_hetero.platform.host import read_processor


def test_a_head_that_does_not_say_when_and_where_is_told(tmp_path: Path) -> None:
    write_rows(tmp_path / "x.json", {"what": "x", "limit": 1.0}, [{"a": 1}, {"a": 2}])
    head = json.loads((tmp_path / "x.json").read_text())
    assert read_rows(tmp_path / "x.json") == head.pop("rows") == [{"a": 1}, {"a": 2}]
    assert list(head) == ["what", "limit", "date", "commit", "machine", "cores"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", head["date"]) and re.match(r"\w+", head["commit"])
    assert head["machine"] == read_processor().name and head["cores"] >= 1


def test_what_a_head_says_itself_stays(tmp_path: Path) -> None:
    told = {"date": "2025-01-01", "commit": "abc", "machine": "another", "cores": 64}
    write_rows(tmp_path / "x.json", told, [])
    assert json.loads((tmp_path / "x.json").read_text()) == {**told, "rows": []}
