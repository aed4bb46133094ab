"""The line of a running step says how much time is left, as soon as anything is known of it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tvm_hetero.cli.shared import step_times
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.moving_line import (
    begin_task,
    moving_line,
    text_width,
    time_left,
)

CLI = Path(__file__).parents[3] / "tvm_hetero" / "cli"
# Of a step's body: what tells of its parts.
_TELLING = ("progress", "counter", "tell", "begin", "tell_phases")
# No part of them is known, they are of nothing that has a name, and they take a second or so.
_PLAIN = {"Load TVM", "Load platform", "Describe machine", "Compare outputs", "Load", "Look around"}


def test_parts_say_how_much_time_is_left_once_some_are_done() -> None:
    now = [0.0]
    line = moving_line(to_stderr=True)
    line.get_time = lambda: now[0]
    begin_task(line, "measure")
    line.update(line.tasks[0].id, completed=0, total=10)
    assert time_left(line.tasks[0]) == ""
    for done in range(1, 5):
        now[0] += 2.0
        line.update(line.tasks[0].id, completed=done)
    assert time_left(line.tasks[0]) == "about 12 s left"


@pytest.mark.parametrize(
    ("most", "usual", "left"),
    [
        (30.0, None, "at most 25 s left"),
        (3.0, 40.0, "at most 0 s left"),
        (None, 40.0, "about 35 s left"),
        (None, 4.0, "4 s the last time"),
        (None, None, ""),
    ],
)
def test_without_parts_it_is_the_limit_or_the_last_time(
    most: float | None, usual: float | None, left: str
) -> None:
    now = [0.0]
    line = moving_line(to_stderr=True)
    line.get_time = lambda: now[0]
    begin_task(line, "solve", most, usual)
    now[0] = 5.0
    assert time_left(line.tasks[0]) == left


@pytest.mark.parametrize("columns", [80, 200])
def test_the_time_left_is_whole_on_a_narrow_terminal_too(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    line = moving_line(to_stderr=False)
    line.get_time = lambda: 0.0
    begin_task(line, "x" * text_width(), most=12345.0)
    begin_task(line, "x" * text_width())
    line.update(line.tasks[1].id, completed=99_999, total=100_000)
    with line.console.capture() as shown:
        line.console.print(line.get_renderable())
    limited, counted = shown.get().splitlines()
    assert "at most 12345 s left" in limited and "99999/100000" in counted
    assert "x" * text_width() in limited


@pytest.fixture
def on_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path))
    monkeypatch.setattr(Steps, "on_terminal", lambda _: True)
    monkeypatch.setattr(step_times, "LEAST", 0.0)
    return Steps()


def test_a_step_is_remembered_by_what_it_is_of(on_terminal: Steps, tmp_path: Path) -> None:
    with on_terminal.live("Load", of="a"):
        pass
    with on_terminal.live("Load", of="b") as step:
        step.progress("weights", 1, 2)
        step.begin("the rest")
        step.counter("kernels")(1, 3)
    with pytest.raises(RuntimeError), on_terminal.live("Load", of="c"):
        raise RuntimeError
    kept = json.loads((tmp_path / "step_seconds.json").read_text())
    assert set(kept) == {"Load: a", "Load: b"}
    assert step_times.last_time("Load: a") == kept["Load: a"]


@pytest.mark.parametrize("text", ["", "[]", '{"Load": "x"}', '{"Load": 1e999}', "[" * 10**5])
def test_a_file_that_says_nonsense_says_nothing(
    on_terminal: Steps, tmp_path: Path, text: str
) -> None:
    (tmp_path / "step_seconds.json").write_text(text)
    assert step_times.last_time("Load") is None
    step_times.remember("Load", 2.0)
    assert step_times.last_time("Load") == 2.0


def test_only_the_last_steps_are_kept(on_terminal: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_times, "MOST_STEPS", 2)
    for name in ("a", "b", "a", "c"):
        step_times.remember(name, 2.0)
    assert [step_times.last_time(name) for name in "abc"] == [2.0, None, 2.0]


def steps_of(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Title of each step in a file, and whether something is known of how long it takes."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.With):
            continue
        inside = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        inside |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        for item in node.items:
            for call in ast.walk(item.context_expr):
                if _opens_step(call):
                    known = len(call.args) > 1 or bool(call.keywords)
                    yield ast.unparse(call.args[0]).strip("'"), known or bool(inside & {*_TELLING})


def _opens_step(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return (
        isinstance(called, ast.Attribute)
        and called.attr in ("step", "live")
        and ast.unparse(called.value) == "steps"
    )


def test_every_step_knows_its_parts_its_limit_or_what_it_is_of() -> None:
    found = [
        each
        for path in sorted(CLI.rglob("*.py"))
        for each in steps_of(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert len(found) > 45
    assert {title for title, known in found if not known} <= _PLAIN
