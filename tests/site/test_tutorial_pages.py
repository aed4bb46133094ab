"""A tutorial's page: all of its script, comments as text, and output where it belongs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.site.tutorial_pages import (
    RecordedRun,
    outputs_by_step,
    read_tutorial,
    tutorial_page,
)

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "tutorials").glob("*.py"))
STORY = '''"""A story.

What ``it`` is about:

    python story.py
"""


def main():
    # ---------------------------------------------------------------- 1. a beginning
    # Why it begins.
    # And where.
    x = 1  # noqa: E501
    # A comment of the code.
    print("1. begun")
    with open("x"):
        # ------------------------------------------------------------ 2. an end
        # How it ends.
        print(
            "2. <b>ended</b>")  # fmt: skip


def helper():
    pass
'''


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.py"
    path.write_text(STORY)
    return read_tutorial(path)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_tutorial_is_a_page(script):
    tutorial = read_tutorial(script)
    assert [step.number for step in tutorial.steps] == list(range(1, len(tutorial.steps) + 1))
    assert all(step.title and step.code for step in tutorial.steps)
    printed = "\n".join(f"{step.number}. said" for step in tutorial.steps)
    page = tutorial_page(tutorial, RecordedRun(printed, "here"))
    assert page.count("\n## ") == len(tutorial.steps) + 1
    assert tutorial.source.rstrip() in page
    # What a step prints says which step it is of.
    told = set(re.findall(r'print\(\s*f?"(\d+)\. ', tutorial.source))
    assert {step.number for step in tutorial.steps} - set(map(int, told)) <= {1, 3}


def test_comments_are_text_and_code_is_code(story):
    first, second = story.steps
    assert (story.title, story.name) == ("A story", "story")
    assert story.text == "What `it` is about:\n\n    python story.py"
    assert (first.title, first.text) == ("A beginning", "Why it begins.\nAnd where.")
    assert first.code == ('x = 1\n# A comment of the code.\nprint("1. begun")\nwith open("x"):')
    assert second.code == 'print(\n    "2. <b>ended</b>")'  # and nothing of the next function


def test_what_was_printed_stands_under_its_step(story):
    run = RecordedRun("1. begun\n   and more\n2. <b>ended</b>\n3. after all\n", "a machine, a day")
    page = tutorial_page(story, run)
    first, second = page.split("## 2. An end")
    assert (
        "1. begun\n   and more\n```" in first
        and "*What it printed here: a machine, a day.*" in first
    )
    # No step 3 has a mark: what it says belongs to the last one before. Nothing of it is HTML.
    assert "```{code-block} text\n:class: output\n\n2. <b>ended</b>\n3. after all\n```" in second


def test_output_of_no_step_is_refused():
    with pytest.raises(ValueError, match="'warning: x' is of no step"):
        outputs_by_step("warning: x\n1. begun", [1])
    with pytest.raises(ValueError, match="of no step"):
        outputs_by_step("1. begun", [2])


def test_a_script_without_steps_is_refused(tmp_path):
    path = tmp_path / "plain.py"
    path.write_text('"""Nothing."""\n')
    with pytest.raises(ValueError, match="no tutorial"):
        read_tutorial(path)


def test_what_it_left_behind_is_shown_and_linked(story):
    run = RecordedRun("1. begun", "here", (("story/net.svg", "The plan"),), ("story/out.html",))
    page = tutorial_page(story, run)
    assert "![The plan](story/net.svg)" in page and '<a href="story/out.html">out.html</a>' in page
    assert "What it left behind" not in tutorial_page(story, RecordedRun("1. begun", "here"))
