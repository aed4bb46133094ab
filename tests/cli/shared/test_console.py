from __future__ import annotations

import pytest

from tvm_hetero.cli.shared.console import Steps, chart_width


@pytest.mark.parametrize(("columns", "width"), [(20, 60), (77, 77), (500, 140)])
def test_a_chart_is_as_wide_as_the_terminal_within_reason(
    monkeypatch: pytest.MonkeyPatch, columns: int, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert chart_width() == width


def test_steps_are_numbered_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps()
    with steps.step("First") as step:
        step.note = "a\x1bnote"
    steps.record("Second", 1.5)
    steps.record("Third", 0.25)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(" [1] First ..") and lines[0].endswith("a\\x1bnote")
    assert lines[1].startswith(" [2] Second ..") and lines[1].endswith(" 1.50 s")
    assert lines[2].endswith("250 ms")
    assert list(steps.seconds) == ["First", "Second", "Third"]
    assert steps.seconds["Second"] == 1.5


def test_quiet_leaves_stdout_for_json(capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps(quiet=True)
    with steps.step("Work"):
        steps.say("hello")
    said = capsys.readouterr()
    assert said.out == ""
    assert "hello" in said.err and "Work" in said.err


def test_a_log_names_each_kind_of_work_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Steps().live("Partition") as step:
        for done in range(3):
            step.progress("measure on cpu0", done, 3)
        step.progress("measure on cpu1", 0, 3)
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines] == ["(measure on cpu0: 3)", "(measure on cpu1: 3)"]


def test_a_failed_step_is_not_printed_as_done(capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps()
    with pytest.raises(RuntimeError), steps.step("Doomed"):
        raise RuntimeError
    assert capsys.readouterr().out == ""
    assert steps.count == 0


def test_what_is_counted_or_has_no_parts_is_no_line_of_a_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Steps().live("Partition") as step:
        step.counter("runs")(1, 2)
        step.begin("solve", 5.0)
        step.progress("lower", 0, 0)
    assert capsys.readouterr().out == ""
