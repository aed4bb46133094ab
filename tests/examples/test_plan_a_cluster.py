"""The plan for a cluster that is not there: the README's commands, in order, in this process."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tests.page_commands import commands_of

FOLDER = Path(__file__).parents[2] / "examples" / "plan_a_cluster"
# The README gives solvers and simulations the time that a reader has. `choose` needs some of it for
# each model, and ends when it has proved its answer.
_SHORTER = (
    (r"(?<!yaml) --time-limit \d+", " --time-limit 0.5"), (r"--seconds \d+", "--seconds 2"),
    ("llama3-8b", "llama3-8b --set layers=8"),
)  # fmt: skip


def _said(text: str) -> str:
    """What a command of the README prints."""
    for pattern, shorter in _SHORTER:
        text = re.sub(pattern, shorter, text)
    program, *words = shlex.split(text)
    assert program == "tvm-hetero"
    done = tvm_hetero(*words)
    assert done.status == 0, f"{text}: {done.err}"
    return done.out


def test_the_readmes_commands_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = shutil.copytree(FOLDER, tmp_path / "rack")
    monkeypatch.chdir(work)
    commands = commands_of((FOLDER / "README.md").read_text(encoding="utf-8"))
    told = [(each.text, _said(each.text)) for each in commands]

    def said(words: str) -> str:
        (found,) = [text for command, text in told if f"tvm-hetero {words}" in command]
        return found

    assert "small.l4b" in said("show servers.yaml")
    assert "tokens a second" in said("plan") and "gap" in said("plan")
    assert "valid" in said("check")
    assert "first token" in said("simulate")
    assert "no choice has less than" in said("choose")
    made = ("plan.json", "plan.html", "choice.html", "network.json", "schedule.svg")
    assert [name for name in made if not (work / name).is_file()] == []
