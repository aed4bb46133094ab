"""The notebook runs, and what it shows in the repository is what it shows when it is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.examples.notebooks import Cell, load_notebook, outputs_of

AGAIN = "python -m tests.examples.notebooks examples/explore_a_plan.ipynb"
BOOK = Path(__file__).parents[2] / "examples" / "explore_a_plan.ipynb"


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    found: list[Cell] = load_notebook(BOOK)["cells"]
    return found


@pytest.fixture(scope="module")
def shown(cells: list[Cell]) -> list[list[Cell]]:
    return outputs_of(cells)


def _text(outputs: list[list[Cell]]) -> str:
    return "".join("".join(each["text"]) for cell in outputs for each in cell if "text" in each)


def _pictures(outputs: list[list[Cell]]) -> list[str]:
    data: list[dict[str, Any]] = [each.get("data", {}) for cell in outputs for each in cell]
    return ["".join(each["image/svg+xml"]) for each in data if "image/svg+xml" in each]


def test_what_the_repository_shows_is_what_the_cells_say(cells, shown):
    """Values are proven, so they are everywhere the same; of the places there may be others."""
    kept = [cell.get("outputs", []) for cell in cells]
    proven = re.compile(
        r"^[\d.]+ us; no plan is below .*$|^.* five times slower .*$|^.* alone: .*$", re.M
    )
    assert len(proven.findall(_text(kept))) == 9
    assert proven.findall(_text(kept)) == proven.findall(_text(shown)), AGAIN
    assert [picture.count("\n") > 50 for picture in _pictures(kept)] == [True] * 3


def test_a_changed_cost_changes_the_plan_and_its_picture(shown):
    first, kept, after = _pictures(shown)
    assert len({first, kept, after}) == 3
    assert all(
        picture.startswith("<svg") and "lower bound" in picture for picture in (first, after)
    )
    text = _text(shown)
    values = [float(value) for value in re.findall(r"^([\d.]+) us; no plan", text, re.M)]
    (same,) = re.findall(r"the same places: ([\d.]+) us", text)
    assert values[0] < values[1] < float(same), "it pays to plan again"
    (moved,) = re.findall(r"^(\d+) of \d+ tasks are elsewhere", text, re.M)
    assert int(moved) == len(re.findall(r"^  \S+: \S+ -> \S+$", text, re.M)) > 0


def test_the_notebook_is_one(cells):
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        wanted = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            wanted |= {"execution_count", "outputs"}
        assert set(cell) == wanted


def test_a_cell_that_fails_fails(cells):
    broken = [{"cell_type": "code", "source": ["x = 1\n", "assert x == 2"]}]
    with pytest.raises(AssertionError):
        outputs_of(broken)
    shown = outputs_of([{"cell_type": "code", "source": ["print('a')\n", "1 + 1"]}])
    assert [each.get("text") or each["data"]["text/plain"] for each in shown[0]] == [["a\n"], ["2"]]
