"""Signals at random moments of verbs that need nothing; `make fuzz` takes all of them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from tests.fuzz.interrupted_verbs import VERBS, Verb
from tests.fuzz.signals import Trial, run_trial
from tvm_hetero.cli.main import app


@pytest.mark.parametrize(
    ("seed", "name"), [(1, "plan"), (2, "zoo"), (3, "relay-check"), (4, "solvers")]
)
def test_a_verb_ends_at_once_and_leaves_nothing(seed: int, name: str, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    outcome = run_trial(Trial.draw(seed, name), tmp_path)
    assert outcome.faults == ()


def test_the_seed_decides_all() -> None:
    drawn = [Trial.draw(seed) for seed in range(300)]
    assert drawn == [Trial.draw(seed) for seed in range(300)]
    assert {trial.verb for trial in drawn} == set(VERBS)
    assert {trial.number for trial in drawn} == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def test_no_verb_is_left_out() -> None:
    known = get_command(app)
    assert isinstance(known, TyperGroup)
    assert {verb.arguments.split()[0] for verb in VERBS} == set(
        known.list_commands(typer.Context(known))
    )


def test_what_is_left_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes SIGHUP alone: SIGTERM ends it, and its child and files stay."""
    (tmp_path / "cache").mkdir()
    package = tmp_path / "tvm_hetero"
    package.mkdir()
    (package / "__main__.py").write_text(
        "import os, signal, subprocess, sys, tempfile, time\n"
        "tempfile.mkdtemp()\n"
        "open('half.json', 'w').write('{')\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'],\n"
        "                 start_new_session=True)\n"
        "signal.signal(signal.SIGHUP, print)\n"
        "time.sleep(1000)\n"
    )
    monkeypatch.setattr("tests.fuzz.signals.ROOT", tmp_path)
    monkeypatch.setattr("tests.fuzz.signals.PATIENCE", 0.1)
    verb = Verb("bad", "x", 1)
    outcome = run_trial(Trial(0, verb, signal.SIGTERM, 0.0, False), tmp_path)
    said = "\n".join(outcome.faults)
    for words in ("status -15", "temporary files", "half-written: half.json", "left: [("):
        assert words in said
