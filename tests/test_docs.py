"""What docs/ and README.md show is what the readers read, and what they name is there."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tvm_hetero.check import check_schedule
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.documents import parse_document

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


def documented_problem() -> Problem:
    return Problem.from_dict(parse_document(blocks(FORMATS, "json")[0], "docs"))


def test_the_platform_example_is_read() -> None:
    (text,) = blocks(FORMATS, "yaml")
    platform = Platform.from_dict(parse_document(text, "docs", as_yaml=True))
    assert platform.names == ("big", "little")
    assert platform.device("big").memory == 8 * 2**30
    assert platform.device("big").launch == pytest.approx(5e-6)
    assert len(platform.links) == 2 and len(platform.fabrics) == 2


def test_the_boards_example_is_read() -> None:
    (text,) = blocks((ROOT / "docs" / "boards.md").read_text(encoding="utf-8"), "yaml")
    platform = Platform.from_dict(parse_document(text, "docs", as_yaml=True))
    boards = [device.rpc for device in platform.devices if device.rpc is not None]
    assert [board.timeout for board in boards] == [10.0, 30.0]
    assert boards[1].tracker == "10.0.0.1:9190"


def test_the_problem_example_is_read() -> None:
    problem = documented_problem()
    assert problem.devices_for("sort1") == ("little",)
    assert problem.seconds("conv1", "little", 4) == 0.015


def test_the_schedule_example_answers_the_problem_example() -> None:
    problem = documented_problem()
    schedule = Schedule.loads(blocks(FORMATS, "json")[1])
    assert check_schedule(problem, schedule) == []
    assert schedule.problem == problem.digest
    assert schedule.copies and schedule.status == "optimal"


def commands(text: str) -> list[list[str]]:
    """The words of every ``tvm-hetero`` line in the indented blocks, comments cut off."""
    lines = re.findall(r"^    tvm-hetero (.+)$", text, re.M)
    return [line.split("#")[0].split() for line in lines]


@pytest.mark.parametrize("words", commands(README), ids=" ".join)
def test_the_readmes_commands_have_their_options(words: list[str]) -> None:
    described = tvm_hetero(words[0], "--help")
    assert described.status == 0
    for option in (word for word in words if word.startswith("-")):
        assert re.search(rf"(^|[\s,]){option}[\s,]", described.out), option


def test_the_readmes_python_names_what_there_is() -> None:
    (text,) = blocks(README, "python")
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    spaces = {
        name: importlib.import_module(f"tvm_hetero{dot}")
        for name, dot in (("th", ""), ("relay", ".relay"), ("relax", ".relax"))
    }
    found = 0
    for call in calls:
        first, *rest = ast.unparse(call.func).split("(")[0].split(".")
        if first not in spaces:
            continue
        value = spaces[first]
        for attribute in rest:
            value = getattr(value, attribute)
        parameters = inspect.signature(value).parameters
        assert all(keyword.arg in parameters for keyword in call.keywords)
        found += 1
    assert found >= 5


def test_the_files_that_the_architecture_names_are_there() -> None:
    rooms = "include|tvm_hetero|passes|cost_models|runtime|src|tests"
    names = re.findall(rf"\b(?:{rooms})/[\w/]*(?:\.(?:py|h|cc))?", ARCHITECTURE)
    assert len(names) > 10
    for name in names:
        assert (ROOT / name).exists() or (ROOT / "tvm_hetero" / name).exists(), name
