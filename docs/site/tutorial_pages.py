"""Tutorials as pages: a script's comments are the text, its code the blocks, its output theirs.

A tutorial marks its steps by a line ``# ------- 2. a machine``; the comment below is what the step
is about. What it prints in a step begins with the step's number, and lines that go on do not.
Nothing of a page is written by hand, so none can say what its script does not do.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_MARK = re.compile(r"^\s*# -{8,} (\d+)\. (.+)$")
_TOLD = re.compile(r"^(\d+)\. ")
# What is said to tools, not to readers.
_PRAGMA = re.compile(r"  # (?:fmt: skip|noqa\b|type: ignore).*$", re.M)


@dataclass(frozen=True)
class Step:
    """A step of a tutorial: its number, its title, what it is about (Markdown), its code."""

    number: int
    title: str
    text: str
    code: str


@dataclass(frozen=True)
class Tutorial:
    """A script, read: title and introduction (Markdown), steps, and the whole of it."""

    name: str
    title: str
    text: str
    steps: tuple[Step, ...]
    source: str


@dataclass(frozen=True)
class RecordedRun:
    """What a script printed, where and when (in words), and what it left behind.

    Attributes
    ----------
    output : all that it printed.
    where : machine, day and commit.
    pictures : files of SVG beside the page, each with what it shows.
    pages : files of HTML beside the page that the script wrote.
    """

    output: str
    where: str
    pictures: tuple[tuple[str, str], ...] = ()
    pages: tuple[str, ...] = ()


def read_tutorial(path: Path) -> Tutorial:
    """Read a script.

    Raises
    ------
    ValueError
        If it has no docstring, or no marked steps.
    """
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    tree = ast.parse(source)
    told = ast.get_docstring(tree)
    marks = [(i, found) for i, line in enumerate(lines) if (found := _MARK.match(line))]
    if told is None or not marks:
        raise ValueError(
            f"{path} is no tutorial: a docstring and steps ('# ---- 1. title') are expected"
        )
    title, _, text = told.partition("\n")
    ends = [*(line for line, _ in marks[1:]), len(source)]
    steps = tuple(
        _read_step(lines, line, min(end, _function_end(tree, line)), found)
        for (line, found), end in zip(marks, ends, strict=True)
    )
    return Tutorial(path.stem, title.rstrip("."), _as_markdown(text.strip()), steps, source)


def _function_end(tree: ast.Module, line: int) -> int:
    """The number of lines up to the end of the function that has a line (counted from 0)."""
    holds = [
        node.end_lineno or 0
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.lineno <= line + 1 <= (node.end_lineno or 0)
    ]
    return holds[0]


def _read_step(lines: Sequence[str], start: int, end: int, mark: re.Match[str]) -> Step:
    """The step whose mark is in line `start` and that ends before line `end`."""
    body = list(lines[start + 1 : end])
    about: list[str] = []
    while body and body[0].lstrip().startswith("# "):
        about.append(body.pop(0).strip().removeprefix("# "))
    code = _PRAGMA.sub("", textwrap.dedent("\n".join(body)).strip("\n"))
    title = mark[2][0].upper() + mark[2][1:]
    return Step(int(mark[1]), title, "\n".join(about), code)


def _as_markdown(text: str) -> str:
    """A docstring's text: double backticks quote, indented lines after a colon are commands."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def outputs_by_step(output: str, numbers: Sequence[int]) -> dict[int, str]:
    """What was printed, by the step that it belongs to: the last one of `numbers` that is not
    above the number that a line begins with.

    Raises
    ------
    ValueError
        If the first line has no number, or a number is below all steps.
    """
    found: dict[int, list[str]] = {}
    step = None
    for line in output.rstrip().splitlines():
        if told := _TOLD.match(line):
            step = max((n for n in numbers if n <= int(told[1])), default=None)
        if step is None:
            raise ValueError(f"the output {line!r} is of no step of {list(numbers)}")
        found.setdefault(step, []).append(line)
    return {number: "\n".join(lines) for number, lines in found.items()}


def tutorial_page(tutorial: Tutorial, run: RecordedRun) -> str:
    """The page, in MyST Markdown."""
    outputs = outputs_by_step(run.output, [step.number for step in tutorial.steps])
    parts = [f"# {tutorial.title}", tutorial.text, f"*What it printed here: {run.where}.*"]
    for step in tutorial.steps:
        parts += [f"## {step.number}. {step.title}", step.text, _block("python", step.code)]
        if step.number in outputs:
            parts.append(_block("text", outputs[step.number], "output"))
    parts += _left_behind(run)
    parts += [
        f"## The whole script\n\n`tutorials/{tutorial.name}.py`:",
        _folded("all of its lines", _block("python", tutorial.source.rstrip())),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _left_behind(run: RecordedRun) -> list[str]:
    """Pictures of plans that were made, and pages that were written."""
    parts = ["## What it left behind"] if run.pictures or run.pages else []
    for file, shows in run.pictures:
        parts += [f"![{shows}]({file})", f"*{shows}.*"]
    for file in run.pages:
        name = Path(file).name
        frame = f'<iframe class="report" src="{file}" title="{name}" loading="lazy"></iframe>'
        parts += [f'The page that it wrote, <a href="{file}">{name}</a>:', frame]
    return parts


def _block(language: str, code: str, kind: str = "") -> str:
    """A block that is shown as it is; `kind` is a class of its own."""
    if not code:
        return ""
    head = f"```{{code-block}} {language}\n:class: {kind}\n" if kind else f"```{language}\n"
    return f"{head}\n{code}\n```" if kind else f"{head}{code}\n```"


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>"
