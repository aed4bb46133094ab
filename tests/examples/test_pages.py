"""What README.md and docs/ tell people to type is typed: Python, and verbs of the scheduling half.

Minutes, so `make fuzz` runs it; `tests/test_docs.py` looks at names and options in each run.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.invoke import tvm_hetero
from tests.small_decoders import tiny
from tests.test_docs import FORMATS, PAGES, blocks
from tests.test_first_ten_minutes import small_model

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "fuzz", reason="takes minutes: make fuzz runs it"
)
# Verbs that need no model, no other machine and no server.
SCHEDULING = {
    "check", "choose", "doctor", "place-layers", "plan", "schedule", "show", "simulate", "solvers",
    "zoo",
}  # fmt: skip
# Where a reader has minutes (most verbs have a limit of their own), the test has seconds.
_SHORTER = {
    "plan": ["--time-limit", "2"],
    "simulate": ["--time-limit", "2", "--seconds", "20"],
    "place-layers": ["--time-limit", "2"],
    "choose": ["--time-limit", "20"],
    "schedule": ["--time-limit", "2"],
}
PLANNING_PAGES = (
    "README.md", "docs/usage.md", "docs/planning.md", "docs/solvers.md", "docs/choosing.md",
)  # fmt: skip


def scheduling_commands(page: str) -> list[list[str]]:
    """The words of a page's commands of the scheduling half; not those of a model's artifact."""
    lines = re.findall(r"^    tvm-hetero ([a-z].*?)(?:\s#.*)?$", PAGES[page], re.M)
    found = [shlex.split(line) for line in lines]
    return [words for words in found if words[0] in SCHEDULING and ".hetero" not in str(words)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The documents of docs/formats.md that pages speak of, and the platforms of the repository."""
    (flow,) = [each for each in blocks(FORMATS, "yaml") if "layer-flow/1" in each]
    (asked,) = [each for each in blocks(FORMATS, "yaml") if "choice-request/1" in each]
    (tmp_path / "problem.yaml").write_text(flow, encoding="utf-8")
    (tmp_path / "request.yaml").write_text(asked, encoding="utf-8")
    (tmp_path / "problem.json").write_text(blocks(FORMATS, "json")[0], encoding="utf-8")
    (tmp_path / "platforms").symlink_to(ROOT / "platforms")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/usage.md", "docs/planning.md", "docs/solvers.md", "docs/choosing.md"],
)
def test_scheduling_commands_of_a_page_in_order(folder: Path, page: str) -> None:
    commands = scheduling_commands(page)
    assert commands
    for words in commands:
        is_quick = "--time-limit" in words or "--judge" in words
        done = tvm_hetero(*words, *([] if is_quick else _SHORTER.get(words[0], [])))
        assert done.status == 0, f"{' '.join(words)}: {done.err}"


def test_the_readmes_and_the_usages_python_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small model and a small decoder; names that stand for a reader's own are given."""
    monkeypatch.chdir(tmp_path)
    small_model(Path("model.onnx"))
    picture = np.ones((1, 3, 224, 224), "float32")
    folder = tiny("llama", tmp_path / "decoder", vocab_size=4000)
    done = tvm_hetero("partition", folder, "--quick", "--length", 64, "--batch", 2,
                      "-o", "gpt.hetero")  # fmt: skip
    assert done.status == 0, done.err
    for page in ("README.md", "docs/usage.md"):
        (text,) = blocks(PAGES[page], "python")
        text = text.split("\ntext = th.OpenModel")[0].replace("data_0", "x")
        names: dict[str, Any] = {"x": picture, "images": [picture] * 3, "Path": Path}
        asyncio.run(_run_cell(text.replace("gpu_0/", ""), names))
        assert len(names["out"]) == 1 and names["out"][0].numpy().shape == (1, 8, 1, 1)
        assert {len(each.tokens) for each in names["made"]} == {50}
        for name in ("ex", "decoder"):
            if name in names:
                names[name].close()


async def _run_cell(text: str, names: dict[str, Any]) -> None:
    """Run code that may await at its top, as a notebook does."""
    code = compile(text, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, names)
    else:
        exec(code, names)
