"""A plan edited on the page of ``show``: saved, judged, built, run; it computes the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.browser import browser as browser
from tests.cli.invoke import tvm_hetero
from tests.cli.verbs.test_partition_plan import folder as folder
from tests.cli.verbs.test_partition_plan import output, partition
from tests.serve.page.browser_page import BrowserPage
from tvm_hetero.problem.schedule import Schedule

LANE = 34  # pixels from one device's lane to the next


def test_what_is_dragged_in_the_browser_is_what_is_built_and_run(
    folder: Path, browser: Any, tmp_path: Path
) -> None:
    artifact, plan = folder / "net.hetero", tmp_path / "plan.json"
    before = Schedule.load(artifact / "schedule.json").placement
    shown = tvm_hetero("show", artifact, "--html", tmp_path / "plan.html")
    assert shown.status == 0, shown.err
    page = BrowserPage(browser, (tmp_path / "plan.html").as_uri(), {})
    try:
        dragged = drag_longest(page)
        assert page.text("#explorer-verdict").startswith("Valid: latency ")
        with page.page.expect_download() as download:
            page.page.click("#explorer-save")
        download.value.save_as(plan)
        assert not page.faults
    finally:
        page.close()
    (moved,) = [
        name for name, place in Schedule.load(plan).placement.items() if place != before[name]
    ]
    assert dragged.startswith(f"task {moved} ")
    problem = artifact / "problem.json"
    judged = tvm_hetero("check", problem, plan)
    assert judged.status == 0 and "valid" in judged.out
    made = partition(folder, "page", "--plan", plan, "--problem", problem)
    assert made.status == 0, made.err
    built = Schedule.load(folder / "page.hetero" / "schedule.json").placement
    assert built == Schedule.load(plan).placement != before
    steps = json.loads((folder / "page.hetero" / "partition" / "plan.json").read_text())["steps"]
    assert len(steps) >= 2
    np.testing.assert_array_equal(output(folder, "page"), output(folder, "net"))


def drag_longest(page: BrowserPage) -> str:
    """Drag the widest bar to the other lane; what it says of itself."""
    bars = page.page.locator("#explorer-edited .movable")
    boxes = [bars.nth(number).bounding_box() for number in range(bars.count())]
    widest = max(range(len(boxes)), key=lambda number: boxes[number]["width"])
    label = str(bars.nth(widest).get_attribute("aria-label"))
    box = boxes[widest]
    is_upper = box["y"] == min(other["y"] for other in boxes)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x + 1, y + (LANE if is_upper else -LANE), steps=3)
    page.page.mouse.up()
    return label
