"""What pages tell people to type is typed: each page's commands, in order, in one shell.

On a small model and a tiny decoder, and for seconds where a reader has minutes; servers listen on
another port. Minutes, so `make fuzz` runs it; `tests/test_page_blocks.py` sees in each run that no
command of a page is left out here without a reason.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.page_folder import make_folder
from tests.page_blocks import typed_commands, typed_pages
from tests.page_commands import as_installed, free_port, run_in_one_shell, with_port

LIMIT = 1500.0
pytestmark = pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "fuzz", reason="takes minutes: make fuzz runs it"
)
# Less time: an option's value, or an option more.
_SHORTER = (
    (r"--seconds \d+", "--seconds 1"), (r"--time-limit \d+", "--time-limit 2"),
    (r"--repeat \d+", "--repeat 2"), (r"--length 2048", "--length 64"),
    (r"--max-new-tokens \d+", "--max-new-tokens 8"),
)  # fmt: skip
_ADDED = (
    (
        r"(schedule|plan|place-layers|simulate) (?!.*(--time-limit|--judge|--solver))",
        " --time-limit 2",
    ),
    (r"simulate (?!.*--seconds)", " --seconds 20"),
    (r"(choose|share) ", " --time-limit 90"),
    (r"load-test (?!.*(--trace|--seconds))", " --seconds 0.5"),
    (r"tune ", " --trials 2 --time-limit 20"),
    (r"record ", " --seconds 0.1 --cost-model quick"),
    (r"adapt net", " --requests 300 --best-of 2"),
    (r"partition (?!.*(--quick|--plan |--precision))", " --quick"),
)
# Of a page: what stands for what its reader has.
_OURS = {
    "docs/usage.md": ((r"MODEL.onnx --shape x", "sound.onnx --shape x"),
                      (r"FOLDER -o bert", "ENCODER -o bert"),
                      (r"(?<=partition FOLDER)", " --length 64"),
                      (r"(?<=four.hetero)", " resnet.hetero bert=v7/bert.hetero")),
    "docs/control-flow.md": ((r"MODEL.onnx", "branches.onnx"), ("gate=", "c=")),
    "docs/open-inference.md": ((r"gpt.hetero", "gpt.hetero net=three.hetero"),
                               (r"@x.npy", "@three.npy")),
}  # fmt: skip
# Of a page: what its reader has done before a command.
_FOR_STREAMS = "tvm-hetero partition MODEL.onnx --objective throughput --quick -o net.hetero"
_BEFORE = {
    "tvm-hetero check net.hetero/problem.json": "cp net.hetero/schedule.json edited.json",
    "tvm-hetero run net.hetero --random --stream": _FOR_STREAMS,
}


def prepared(page: str, port: int) -> Iterator[str]:
    """A page's commands as they are typed here."""
    for command in typed_commands(page):
        for start, before in _BEFORE.items():
            if command.startswith(start):
                yield before
        yield with_server(shortened(_ours(page, command)), port)


def _ours(page: str, command: str) -> str:
    """With our models in place of the reader's; what is optional on the page is left out."""
    command = re.sub(r"\s+\[.+\]$", "", command, flags=re.S) if "curl" not in command else command
    for found, instead in _OURS.get(page, ()):
        command = re.sub(found, instead, command)
    return command


def shortened(command: str) -> str:
    """A command of less time."""
    for found, instead in _SHORTER:
        command = re.sub(found, instead, command)
    for start, more in _ADDED:
        if re.match(rf"tvm-hetero {start}", command):
            command += more
    return command


def with_server(command: str, port: int) -> str:
    """A server runs beside what comes after it, until the next one; who asks minds an error."""
    command = with_port(command, port)
    if command.startswith("curl "):
        return command.replace("curl ", "curl -sS --fail-with-body ", 1)
    if not command.startswith("tvm-hetero serve "):
        return command
    there = command.removesuffix(" &") + ("" if "--port" in command else f" --port {port}")
    return (
        f"kill %% 2>/dev/null && wait || true\n{there} > served.log 2>&1 &\n"
        "for i in $(seq 600); do grep -q 'ready on' served.log && break; sleep 0.2; done\n"
        "grep 'ready on' served.log || { cat served.log; false; }"
    )


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pages take for given."""
    return make_folder(tmp_path_factory.mktemp("pages") / "given")


@pytest.mark.parametrize("page", typed_pages())
def test_a_pages_commands_in_order(given: Path, tmp_path: Path, page: str) -> None:
    work = shutil.copytree(given, tmp_path / "work", symlinks=True)
    commands = list(prepared(page, free_port()))
    told = run_in_one_shell(commands, work, as_installed(tmp_path / "bin"), LIMIT)
    assert len(told) == len(commands)
