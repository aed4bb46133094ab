"""What Sphinx is told of our docstrings, and what is mended in its pages."""

from __future__ import annotations

from docs.site.docstrings import ValueDocstrings, split_entries
from docs.site.finish import copy_files, mend

DOCSTRING = """Do it.

Parameters
----------
solver : the name of a solver
    (or of none).
low, high : of the range.
**others : and so on.

Raises
------
UsageError
    If a : b.
""".splitlines()


def test_entries_of_parameters_are_a_name_and_a_text():
    made = split_entries(DOCSTRING)
    assert made[4:] == [
        "solver", "    the name of a solver", "    (or of none).",
        "low", "    see `high`", "high", "    of the range.", "**others", "    and so on.",
        "", "Raises", "------", "UsageError", "    If a : b.",
    ]  # fmt: skip


def test_what_is_no_section_stays_as_it_is():
    text = ["Seconds : no section.", "", "x : y"]
    assert split_entries(text) == text
    assert split_entries([]) == []


def test_a_propertys_text_may_have_a_colon():
    values, lines = ValueDocstrings(), ["The kind: llvm."]
    values.keep(None, "property", "a.kind", None, None, lines)
    lines[:] = [":type: The kind"]  # napoleon
    values.restore(None, "property", "a.kind", None, None, lines)
    assert lines == ["The kind: llvm."]
    values.keep(None, "function", "f", None, None, lines)
    values.restore(None, "function", "f", None, None, lines)
    assert lines == ["The kind: llvm."]


def test_pages_are_mended_once():
    page = (
        '<p class="caption" role="heading"><aside class="sidebar-drawer">'
        '<aside class="toc-drawer no-toc"><th class="head"><p></p></th>'
    )
    mended = mend(page)
    assert mended == (
        '<p class="caption" role="heading" aria-level="2">'
        '<aside class="sidebar-drawer" aria-label="site">'
        '<aside class="toc-drawer no-toc" aria-label="page"><td></td>'
    )
    assert mend(mended) == mended


def test_results_and_reports_go_along(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("results/zen4/a.json", "tutorials/x/choice.html", "docs/pictures/schedule.json"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    copy_files(source, target)
    found = [path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()]
    assert sorted(found) == ["results/zen4/a.json", "tutorials/x/choice.html"]
