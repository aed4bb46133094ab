"""docs/forms-of-a-problem.md names files and functions that are there, and all forms."""

from __future__ import annotations

import re
from pathlib import Path

from tvm_hetero.solvers.reductions import REDUCTIONS, RELAXATIONS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "forms-of-a-problem.md").read_text(encoding="utf-8")


def rows() -> list[list[str]]:
    """The rows of all tables whose second or last cell is a file of the package."""
    lines = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines]


def file_of(row: list[str]) -> str | None:
    """The file that a row is about."""
    return next((cell for cell in (row[1], row[-1]) if re.fullmatch(r"\w+(/\w+)+\.py", cell)), None)


def test_each_form_of_a_row_is_defined_in_its_file() -> None:
    found = 0
    for row in rows():
        file = file_of(row)
        if file is None:
            assert row[0] in ("form", "who"), row
            continue
        text = (ROOT / "tvm_hetero" / file).read_text(encoding="utf-8")
        for name in re.findall(r"`\.?(\w+)", row[0]):
            assert re.search(rf"\b{name}\b", text), (name, file)
            found += 1
    assert found > 25


def test_each_file_in_parentheses_defines_the_function_before_it() -> None:
    pairs = re.findall(r"`(?:\w+\.)?(\w+)`[^|`]*?\(((?:\w+/)+\w+\.py)\)", PAGE)
    assert len(pairs) > 8
    for name, file in pairs:
        text = (ROOT / "tvm_hetero" / file).read_text(encoding="utf-8")
        assert re.search(rf"\b{name}\b", text), (name, file)


def test_the_page_names_each_form_of_the_table() -> None:
    for form in {*REDUCTIONS, *RELAXATIONS}:
        assert f"({form.name})" in PAGE, form.name
