"""The small mode of benchmarks/document_readers.py runs; our column says what it must."""

from __future__ import annotations

import pytest

from benchmarks import document_readers
from benchmarks.document_readers import large_problem
from benchmarks.quoted.document_readers import tables
from benchmarks.reading.cases import CASES
from benchmarks.reading.readers import ABSENT, READERS, installed
from tvm_hetero.problem import Problem
from tvm_hetero.util.documents import parse_document

READ = {"nothing wrong", "`8GiB` for bytes"}


@pytest.fixture(scope="module")
def rows():
    return document_readers.main(["--small"])


def test_every_reader_is_timed_or_said_to_be_absent(rows):
    timed = [row for row in rows if row["measure"] != "case"]
    assert {row["reader"] for row in timed} >= {"yaml", "json.loads", *READERS}
    for row in timed:
        library = READERS[row["reader"]][1] if row["reader"] in READERS else row["reader"]
        absent = library in {"msgspec", "cattrs"} and not installed(library)
        assert row["says"] == ABSENT if absent else row["seconds"] > 0


def test_every_case_is_put_to_every_reader(rows):
    answered = [(row["case"], row["reader"]) for row in rows if row["measure"] == "case"]
    assert answered == [(case, reader) for case in CASES for reader in READERS]


def test_ours_refuses_what_is_wrong_in_one_printable_line(rows):
    ours = {row["case"]: row for row in rows if row.get("case") and row["reader"] == "ours"}
    assert {case for case, row in ours.items() if not row["refused"]} == READ
    for case in CASES.keys() - READ:
        assert ours[case]["printable"] and ours[case]["characters"] < 500
        assert ours[case]["says"].startswith("refused: net.json: ")


def test_the_large_problem_has_its_tasks():
    problem = Problem.from_dict(parse_document(large_problem(60), "large"))
    assert len(problem.tasks) == 60
    assert 59 < len(problem.graph.edges) < 2 * 59


def test_the_tables_say_which_library_is_absent():
    heads = {"machine": "m", "cores": 2, "load": 0.0, "libraries": {"python": "3"}, "tasks": 1}
    row = {"measure": "case", "case": "c", "says": ABSENT}
    rows = [{**row, "reader": reader} for reader in READERS]
    rows.append({"measure": "problem", "reader": "msgspec", "file_mb": 1.0, "says": ABSENT})
    _, times, cases = tables({**heads, "rows": rows})
    assert f"| `msgspec` | - | - | {ABSENT} | {ABSENT} | - |" in times
    assert cases.splitlines()[-1] == f"| c | {ABSENT} | {ABSENT} | {ABSENT} |"
