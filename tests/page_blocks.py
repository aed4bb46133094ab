"""The blocks of code of a page for readers: what is between fences, and what is indented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.test_docs import PAGES

_FENCE = re.compile(r"^```(\w*)")
# What the shell of `tests/examples/test_page_commands.py` can be told.
_PROGRAMS = ("tvm-hetero ", "curl ", "python ", "head ", "MODEL=", "grep ")
# Commands that it is not told, by their beginnings, and why.
NOT_TYPED = {
    "pip install": "installs: tests/try_wheel.py does, with the wheel",
    "make ": "it is what runs these tests, and more: CI types it",
    ".venv/bin/python -m pytest": "it is what runs these tests",
    "python -m benchmarks.": "minutes to hours: tests/benchmarks runs each, made small",
    "python -m tvm.exec.rpc_server": "stays: tests/rpc_devices/servers.py starts it",
    "cmake ": "minutes: tests/cpp/cpp_build.py builds the program",
    "build/example/run_artifact": "tests/cpp/test_cpp_example.py runs the program",
    "tvm-hetero demo": "measures a real network: tests/test_make_demo.py types it",
}

# Pages whose commands have a test of their own.
PAGES_TYPED = {
    "docs/first-ten-minutes.md": "tests/test_first_ten_minutes.py",
    "examples/chat_on_two_machines/README.md": "tests/examples/test_chat_on_two_machines.py",
    "examples/plan_a_cluster/README.md": "tests/examples/test_plan_a_cluster.py",
    "examples/stream_ocr/README.md": "tests/examples/test_stream_ocr.py",
    "examples/serve/README.md": "docs/serving.md",
}


class CodeBlock(NamedTuple):
    """A block: its language ("" for indented ones), and its lines without the indentation."""

    language: str
    text: str

    @property
    def head(self) -> str:
        """Its first line, by which a block is called."""
        return self.text.partition("\n")[0].strip()


def code_blocks(page: str) -> list[CodeBlock]:
    """All blocks of a page, in order."""
    return list(_find(iter(page.splitlines())))


def _find(lines: Iterator[str]) -> Iterator[CodeBlock]:
    indented: list[str] = []
    before = ""
    for line in lines:
        fence = _FENCE.match(line)
        if line.startswith("    ") and (indented or not before.strip()):
            indented.append(line[4:])
        elif indented and line.strip():
            yield _indented(indented)
            indented = []
        elif indented:
            indented.append("")
        if fence is not None:
            body = list(iter(lambda: next(lines), "```"))
            yield CodeBlock(fence[1], "\n".join(body))
        before = line
    if indented:
        yield _indented(indented)


def _indented(lines: list[str]) -> CodeBlock:
    return CodeBlock("", "\n".join(lines).strip("\n"))


def shell_commands(block: str) -> list[str]:
    """The commands of an indented block, without comments.

    One goes on where a quote is open, or the next line is indented.
    """
    found: list[str] = []
    for line in filter(None, block.splitlines()):
        if found and (line.startswith(" ") or found[-1].count("'") % 2):
            found[-1] += "\n" + line
        else:
            found.append(line)
    return [re.sub(r"\s+# .*$", "", command) for command in found]


def reason_not_typed(page: str, command: str) -> str | None:
    """Why a command is not typed by `tests/examples/test_page_commands.py`; None if it is."""
    for start, reason in NOT_TYPED.items():
        if command.startswith(start):
            return reason
    return None if command.startswith(_PROGRAMS) else "no command"


def typed_pages() -> list[str]:
    """Pages with commands that `tests/examples/test_page_commands.py` types."""
    return [page for page in PAGES if page not in PAGES_TYPED and typed_commands(page)]


def typed_commands(page: str) -> list[str]:
    """Those commands of a page, as they stand there, without comments."""
    blocks = [block.text for block in code_blocks(PAGES[page]) if not block.language]
    commands = [command for text in blocks for command in shell_commands(text)]
    return [each for each in commands if reason_not_typed(page, each) is None]
