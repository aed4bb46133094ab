"""Where there is no terminal, what takes long is named, with the time that is left."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.waiting import eventually
from tvm_hetero.cli.shared import phase_log
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.phase_log import FIRST, FURTHER, RunningPhase


@pytest.mark.parametrize(
    ("phase", "usual", "line"),
    [
        (RunningPhase("solve", 10.0, most=60.0), None, "(solve: 8 s, at most 52 s left)"),
        (RunningPhase("solve", 10.0, most=5.0), 30.0, "(solve: 8 s, at most 0 s left)"),
        (RunningPhase("import", 10.0), 30.0, "(import: 8 s, about 22 s left)"),
        (RunningPhase("import", 10.0), 3.0, "(import: 8 s, 3 s the last time)"),
        (RunningPhase("import", 10.0), None, "(import: 8 s)"),
        (
            RunningPhase("measure", 10.0, done=4, total=10),
            99.0,
            "(measure: 4/10, 8 s, about 12 s left)",
        ),
        (RunningPhase("measure", 10.0, done=0, total=10), None, "(measure: 0/10, 8 s)"),
        (RunningPhase("a\x1b[2J\nb", 10.0), None, r"(a\x1b[2J\nb: 8 s)"),
    ],
)
def test_a_line_tells_phase_parts_and_what_is_left(
    phase: RunningPhase, usual: float | None, line: str
) -> None:
    assert phase.line(18.0, usual) == f"     {line}"


def test_an_hour_has_few_lines_and_what_is_quick_none() -> None:
    assert FIRST == 2.0  # seconds: what the issue asks for
    due, lines = FIRST, 0
    while due < 3600:
        due, lines = due * FURTHER, lines + 1
    assert lines <= 6


@pytest.fixture
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log that speaks at once; the folder of the cache."""
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path))
    monkeypatch.setattr(phase_log, "FIRST", 0.001)
    return tmp_path


class Heard:
    """All that was printed so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.out = self.err = ""
        self._capsys = capsys

    def says(self, text: str) -> bool:
        """Whether a text comes on stderr."""
        return eventually(lambda: text in self.read().err)

    def read(self) -> Heard:
        new = self._capsys.readouterr()
        self.out, self.err = self.out + new.out, self.err + new.err
        return self


def test_a_phase_that_lasts_is_named_beside_the_output(
    impatient: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = Heard(capsys)
    with Steps().step("Partition", of="net") as step:
        assert heard.says("(Partition: 0 s)\n")
        step.begin("solve", 50.0)
        assert heard.says("(solve: 0 s, at most 50 s left)\n")
        step.progress("measure on cpu0", 1, 3)
        assert heard.says("(measure on cpu0: 1/3, 0 s, about 0 s left)\n")
        step.counter("kernels")(0, 7)
        assert heard.says("(kernels: 0/7, 0 s)\n")
    # Of the output itself no line is another one than before.
    named, done = heard.read().out.splitlines()
    assert named.strip() == "(measure on cpu0: 3)" and done.startswith(" [1] Partition ...")


def test_what_a_log_was_told_of_is_known_the_next_time(
    impatient: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_hetero.cli.shared.step_times.LEAST", 0.0)
    for said in ("(Import: 0 s)", " s the last time)"):
        with Steps(quiet=True).live("Import", of="net"):
            assert Heard(capsys).says(said)
    with Steps().live("Import", most=5.0, of="limited"):
        assert Heard(capsys).says("at most")
    assert set(json.loads((impatient / "step_seconds.json").read_text())) == {"Import: net"}


def test_where_no_thread_can_be_had_the_step_runs_all_the_same(
    impatient: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Steps().step("Partition") as step:
        step.begin("solve")
    done = capsys.readouterr()
    assert done.out.startswith(" [1] Partition ...") and done.err == ""


def test_nothing_is_written_of_what_is_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TVM_HETERO_CACHE", str(tmp_path / "none"))
    monkeypatch.setattr("tvm_hetero.cli.shared.step_times.LEAST", 0.0)
    with pytest.raises(RuntimeError), Steps().live("Import", of="net"):
        raise RuntimeError
    with Steps().live("Import", of="net"):
        pass
    assert capsys.readouterr().err == "" and not (tmp_path / "none").exists()


def test_a_phase_that_begins_late_is_named_and_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The phase before it may be due again in minutes only."""
    monkeypatch.setattr(phase_log, "FIRST", 0.02)
    said: list[str] = []
    log = phase_log.PhaseLog("first", None, lambda: None, said.append)
    try:
        assert eventually(lambda: len(said) >= 2)  # the next one is due much later
        log.begin("second")
        assert eventually(lambda: any("second" in line for line in said))
    finally:
        log.end()
