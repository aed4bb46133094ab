"""Pages of results have every row of their file, and say where it was measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.site.results_pages import (
    alike_rows,
    html_table,
    read_result,
    read_results,
    result_page,
    results_index,
    write_results,
)

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
FILES = sorted(RESULTS.rglob("*.json"))


@pytest.fixture(scope="module")
def found():
    return read_results(RESULTS)


def test_every_row_of_every_file_is_shown(found):
    assert len(found) > 50
    for result, path in zip(found, FILES, strict=True):
        document = json.loads(path.read_text())
        rows = document if isinstance(document, list) else document.get("rows")
        if rows is None:  # several lists of them
            rows = [row for rows in document.values() for row in rows]
        assert len(result.rows) == len(rows)
        page = result_page(result)
        table = page.partition("a heading sorts")[2]
        assert table.count("<tr><td") == len(rows), path.name
        assert f'href="{path.name}"' in page or not rows


def test_every_file_has_a_day_and_a_commit(found):
    # Of git, where the file does not say it; a tree without git has neither.
    if not (ROOT / ".git").exists():
        pytest.skip("no git here")
    for result in found:
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", result.date), result.name
        assert re.fullmatch(r"[0-9a-f]{7,}\+?", result.commit), result.name
    assert sum(result.machine == "not recorded" for result in found) < len(found) / 4


def test_every_file_says_by_which_command_it_was_made(found):
    """A title stood there, or a path that is no command."""
    for result in found:
        command = re.match(r"python -m ((?:benchmarks|tests)\.[\w.]+)", result.command)
        assert command, (result.name, result.command)
        assert (ROOT / f"{command[1].replace('.', '/')}.py").is_file(), result.command
    titles = {result.name: result.head.get("what") for result in found}
    assert titles["conformance"] == "the ONNX backend suite"


def test_what_is_nested_becomes_columns_and_figures_keep_their_digits(tmp_path):
    path = tmp_path / "x.json"
    rows = [{"model": "a|<b>", "quiet": {"plan": 1.23456789}}, {"model": "c", "runs": [1, 2]}]
    path.write_text(json.dumps({"what": "python -m x", "machine": "M", "cores": 2, "rows": rows}))
    result = read_result(path, tmp_path)
    assert [list(row) for row in result.rows] == [["model", "quiet.plan"], ["model", "runs"]]
    assert (result.command, result.machine, result.date) == (
        "python -m x",
        "M, 2 cores",
        "not recorded",
    )
    page = result_page(result)
    assert ">date of the last change<" in page and not result.is_dated
    assert '<td class="n" data-value="1.23456789">1.235</td>' in page
    assert "a|&lt;b&gt;" in page and "<b>" not in page
    assert '<td class="s">[1, 2]</td>' in page


def test_rows_of_other_kinds_have_tables_of_their_own():
    one = {"a": 1, "b": 2, "c": 3}
    two = {"a": 1, "x": 2}
    assert alike_rows([one, two, {**one, "d": 4}, two]) == [[one, {**one, "d": 4}], [two, two]]
    assert alike_rows([]) == []


def test_a_table_is_one_block_of_html():
    # An empty line would end it for Markdown, and what follows would be text.
    table = html_table(["a"], [["x\n\ny"], [None], [True]])
    assert "\n\n" not in table and ">x y</td>" in table and ">true</td>" in table


def test_all_files_lie_beside_their_pages(tmp_path):
    write_results(RESULTS, tmp_path)
    for path in FILES:
        name = path.relative_to(RESULTS)
        assert (tmp_path / name).read_bytes() == path.read_bytes()
        assert (tmp_path / name.with_suffix(".md")).is_file()
    index = (tmp_path / "index.md").read_text()
    assert index.count('<td><a href="') == len(FILES)


def test_the_index_leads_to_all(found):
    index = results_index(found[:3])
    assert all(f'href="{each.name}.html"' in index for each in found[:3])


def test_figures_over_time_have_their_page_and_their_rows(tmp_path):
    write_results(RESULTS, tmp_path)
    page = (tmp_path / "history.html").read_text()
    assert (tmp_path / "history.jsonl").read_bytes() == (RESULTS / "history.jsonl").read_bytes()
    assert page.count('class="history"') >= 5
    index = (tmp_path / "index.md").read_text()
    assert '<a href="history.html">' in index and '<a href="history.jsonl">' in index


def test_the_index_says_whose_days_are_those_of_git(found):
    dated, undated = (
        next(each for each in found if each.is_dated == said) for said in (True, False)
    )
    assert f">{dated.date}</td>" in results_index([dated])
    assert f">{undated.date} (last change)</td>" in results_index([undated])
    assert f">{undated.commit} (last change)</td>" in results_index([undated])
