"""The commands of a page for readers, and what runs them one after the other in one shell.

Imports nothing but Python's own: `tests/try_wheel.py` runs one where there is only the wheel.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FIRST_TEN_MINUTES = Path(__file__).parent.parent / "docs" / "first-ten-minutes.md"
INSTALLING = "1. Install"
# What docs/first-ten-minutes.md leaves behind.
MADE = ("plan.html", "outputs.npz", "trace.json", "y.npy", "load.html")
_MARK = "@@ "


class PageCommand(NamedTuple):
    """A command of the page, and the heading below which it stands."""

    section: str
    text: str


def commands_of(page: str) -> list[PageCommand]:
    """All indented lines of a page, in order."""
    found, section = [], ""
    for line in page.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("    "):
            found.append(PageCommand(section, line.strip()))
    return found


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def with_port(command: str, port: int) -> str:
    """The command with another port than the page's, which may be taken."""
    return re.sub(r"\b8000\b", str(port), command)


def run_in_one_shell(
    commands: Sequence[str], folder: Path, environment: Mapping[str, str], limit: float
) -> list[str]:
    """Run commands as they would be typed, up to the first that fails.

    Returns
    -------
    list of str
        What each one printed, errors included.

    Raises
    ------
    AssertionError
        One has failed; the text has what it printed. A server that it left behind is ended.
    """
    # The last line: of `a && b` the shell itself does not mind that `a` has failed.
    script = "".join(
        f"printf '\\n{_MARK}{i}\\n'\n{text}\n(exit $?)\n" for i, text in enumerate(commands)
    )
    ending = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
    done = subprocess.run(
        ["timeout", f"{limit:g}", "bash", "-e", "-u", "-o", "pipefail", "-c", ending + script],
        cwd=folder, env=dict(environment), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    told = re.split(rf"\n{_MARK}\d+\n", done.stdout)[1:]
    assert done.returncode == 0, f"{commands[len(told) - 1]}: {told[-1][-3000:]}"
    return told


def as_installed(folder: Path) -> dict[str, str]:
    """An environment in which `tvm-hetero` and `python` are of this tree and this interpreter.

    Parameters
    ----------
    folder : a new one; what calls them is written there.
    """
    folder.mkdir()
    for name, words in {"tvm-hetero": "-m tvm_hetero", "python": ""}.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    root = str(Path(__file__).parent.parent)
    return {**os.environ, "PATH": path, "PYTHONPATH": root, "NO_COLOR": "1"}
