"""The page of a plan in a browser: tasks are dragged, judged, compared, saved, and read again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.browser import browser as browser
from tests.cli.invoke import tvm_hetero
from tests.report import samples
from tests.serve.page.browser_page import BrowserPage
from tvm_hetero.check import check_schedule
from tvm_hetero.problem import Problem
from tvm_hetero.problem.retime import retime
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.explorer.data import why_not


@pytest.fixture
def open_plan(browser: Any, tmp_path: Path) -> Iterator[Callable[..., BrowserPage]]:
    """Write the page of a problem's sample schedule, and open it from the disk."""
    with ExitStack() as stack:

        def open_it(problem: Problem, **options: Any) -> BrowserPage:
            problem.save(tmp_path / "problem.json")
            samples.schedule(problem).save(tmp_path / "schedule.json")
            made = tvm_hetero("show", tmp_path / "schedule.json", "--html", tmp_path / "plan.html")
            assert made.status == 0, made.err
            page = BrowserPage(browser, (tmp_path / "plan.html").as_uri(), options)
            stack.callback(page.close)
            return page

        yield open_it


def bar(name: str) -> str:
    return f"#explorer-edited .movable[aria-label^='task {name} ']"


def saved(page: BrowserPage, tmp_path: Path) -> Schedule:
    with page.page.expect_download() as download:
        page.page.click("#explorer-save")
    download.value.save_as(tmp_path / "plan.json")
    return Schedule.load(tmp_path / "plan.json")


def test_a_task_goes_to_another_device_by_keys_and_the_judge_answers(
    open_plan: Callable[..., BrowserPage], tmp_path: Path
) -> None:
    problem = samples.problem()
    page = open_plan(problem)
    assert page.text("#explorer-verdict").startswith("Valid: latency 5.00 ms, as much as")
    page.page.focus(bar("c"))
    page.page.keyboard.press("ArrowUp")
    page.page.keyboard.press("ArrowDown")  # the focus goes with the task
    assert page.text("#explorer-moved") == "No task is on another device."
    page.page.keyboard.press("ArrowUp")
    moved = saved(page, tmp_path)
    assert moved.placement["c"] == ("big",) and not check_schedule(problem, moved)
    assert replace(moved, solver="hand") == retime(problem, moved_by_hand(problem))
    said = page.text("#explorer-verdict")
    assert said.startswith("Valid: latency 8.00 ms, 60.0 % more than") and "4.00 ms" in said
    assert " ".join(page.text("#explorer-moved").split()[-3:]) == "c big little"
    for _ in range(3):
        page.page.click("#explorer-undo")
    assert page.text("#explorer-verdict").startswith("Valid: latency 5.00 ms, as much as")
    assert page.page.is_disabled("#explorer-undo") and not page.faults


def moved_by_hand(problem: Problem) -> Schedule:
    schedule = samples.schedule(problem)
    last = replace(schedule.executions[-1], device="big")
    return replace(schedule, executions=(*schedule.executions[:-1], last))


def test_a_task_is_dragged_to_another_lane(
    open_plan: Callable[..., BrowserPage], tmp_path: Path
) -> None:
    page = open_plan(samples.problem())
    drag_down(page, "b", 5)
    assert saved(page, tmp_path).placement["b"] == ("little",) and not page.faults


def test_a_finger_drags_a_task_and_does_not_scroll_the_page(
    open_plan: Callable[..., BrowserPage], tmp_path: Path
) -> None:
    """The browser took the finger for itself after some pixels (`pointercancel`)."""
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = open_plan(samples.problem(), **phone)
    page.page.evaluate(
        "document.getElementById('explorer-edited').scrollIntoView({block: 'center'})"
    )
    box = page.page.locator(bar("b")).bounding_box()
    assert box is not None
    finger = page.page.context.new_cdp_session(page.page)
    for kind, down in (("touchStart", 0), ("touchMove", 12), ("touchMove", 26), ("touchEnd", None)):
        at = {"x": box["x"] + 5, "y": box["y"] + box["height"] / 2 + (down or 0)}
        points = [] if down is None else [at]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert saved(page, tmp_path).placement["b"] == ("little",) and not page.faults


def drag_down(page: BrowserPage, name: str, inside: float) -> None:
    """Drag a bar to the next lane, by a place so far from where it begins."""
    box = page.page.locator(bar(name)).bounding_box()
    assert box is not None
    x, y = box["x"] + inside, box["y"] + box["height"] / 2
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x + 2, y + 34, steps=3)
    page.page.mouse.up()


def test_time_is_drawn_longer_and_a_task_is_dragged_there_too(
    open_plan: Callable[..., BrowserPage], tmp_path: Path
) -> None:
    """Of a plan of thousands of tasks a bar was two pixels wide."""
    page = open_plan(samples.problem())
    wide = page.page.locator(bar("b")).bounding_box()
    for _ in range(2):
        page.page.click("#explorer-wider")
    zoomed = page.page.locator(bar("b")).bounding_box()
    assert wide is not None and zoomed is not None
    assert zoomed["width"] > 3.5 * wide["width"]
    both = [
        f"document.getElementById('explorer-{name}').scrollLeft" for name in ("edited", "other")
    ]
    page.page.evaluate(f"{both[0]} = 300")
    page.until(f"{both[1]} === 300")
    names = page.page.locator("#explorer-edited svg > g:last-child text").first.bounding_box()
    assert names is not None and names["x"] >= 0
    page.page.locator("#explorer-edited").scroll_into_view_if_needed()
    page.page.evaluate(f"{both[0]} += {zoomed['x'] - 400}")
    page.page.wait_for_timeout(50)
    drag_down(page, "b", 20)
    assert saved(page, tmp_path).placement["b"] == ("little",)
    for _ in range(2):
        page.page.click("#explorer-narrower")
    assert page.page.is_disabled("#explorer-narrower") and not page.faults


def test_a_saved_plan_is_compared_and_one_that_is_not_valid_is_not(
    open_plan: Callable[..., BrowserPage], tmp_path: Path
) -> None:
    problem = samples.problem()
    page = open_plan(problem)
    other = retime(problem, moved_by_hand(problem))
    other.save(tmp_path / "other.json")
    page.page.set_input_files("#explorer-load", tmp_path / "other.json")
    page.until("document.getElementById('explorer-other-name').textContent.endsWith('other.json')")
    assert "37.5 % less than other.json (8.00 ms)" in page.text("#explorer-verdict")
    document = json.loads((tmp_path / "other.json").read_text())
    document["objective"]["value"] = 1e-3
    (tmp_path / "false.json").write_text(json.dumps(document))
    page.page.set_input_files("#explorer-load", tmp_path / "false.json")
    page.until("document.getElementById('explorer-verdict').textContent.includes('rule ')")
    assert "false.json is no valid plan of this problem" in page.text("#explorer-verdict")
    page.page.click("#explorer-swap")
    assert saved(page, tmp_path).value == other.value and not page.faults


def test_hostile_names_stay_text_and_all_can_use_the_page(
    open_plan: Callable[..., BrowserPage],
) -> None:
    page = open_plan(samples.problem(evil=True), color_scheme="dark")
    assert "<script>alert('x')</script>\\u001b[31m[bold]&\\u202e" in str(
        page.page.text_content("#explorer-edited")
    )
    assert not page.accessibility_faults() and not page.faults and not page.strangers


def test_a_plan_that_no_page_can_handle_is_said_so() -> None:
    problem = samples.problem()
    schedule = samples.schedule(problem)
    assert why_not(problem, schedule) == ""
    many = replace(schedule, executions=schedule.executions * 1000)
    assert "3000 executions" in why_not(problem, many)
    task = replace(problem.tasks[0], weight_bytes=1 << 54)
    graph = type(problem.graph)([task, *problem.tasks[1:]], problem.graph.edges)
    assert "bytes" in why_not(replace(problem, graph=graph), schedule)
