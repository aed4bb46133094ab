"""The examples of a service start the server with options that it has, and stop it as it stops."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main

from tvm_hetero.cli.main import app
from tvm_hetero.serve.core.options import ServeOptions

FOLDER = Path(__file__).parents[2] / "examples" / "serve"


def _unit() -> dict[str, str]:
    text = (FOLDER / "tvm-hetero.service").read_text().replace("\\\n", " ")
    return dict(line.split("=", 1) for line in text.splitlines() if re.match(r"[A-Z]\w+=", line))


def _dockerfile(word: str) -> list[str]:
    text = (FOLDER / "Dockerfile").read_text()
    (found,) = re.findall(rf"^{word} (\[.*\])$", text, re.M)
    return list(json.loads(found))


def _commands() -> dict[str, list[str]]:
    return {
        "unit": shlex.split(_unit()["ExecStart"]),
        "image": _dockerfile("ENTRYPOINT") + _dockerfile("CMD"),
    }


@pytest.mark.parametrize("where", ["unit", "image"])
def test_the_command_is_one_that_the_command_line_takes(where):
    program, verb, *arguments = _commands()[where]
    assert (Path(program).name, verb) == ("tvm-hetero", "serve")
    command = typer.main.get_command(app).get_command(None, "serve")
    context = command.make_context("serve", arguments)
    assert context.params["models"]
    assert context.params["key_file"], "it listens beyond loopback and must ask for a key"


def test_who_stops_the_service_waits_longer_than_the_server_drains():
    wanted = re.search(r"--drain-seconds (\d+)", _unit()["ExecStart"])
    assert wanted is not None
    assert float(_unit()["TimeoutStopSec"]) > float(wanted[1])
    stopped = re.search(r"--stop-timeout (\d+)", (FOLDER / "Dockerfile").read_text())
    assert stopped is not None and float(stopped[1]) > ServeOptions().drain


def test_the_image_runs_as_a_user_without_rights():
    text = (FOLDER / "Dockerfile").read_text()
    users = re.findall(r"^USER (\d+)$", text, re.M)
    assert users and users[-1] != "0"
    assert text.index("USER ") < text.index("ENTRYPOINT")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path):
    unit = tmp_path / "tvm-hetero.service"
    text = (FOLDER / "tvm-hetero.service").read_text()
    unit.write_text(text.replace("/opt/tvm-hetero/bin/tvm-hetero", shutil.which("true") or ""))
    found = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


def test_what_git_passes_over_is_not_sent_to_the_image_either():
    """An environment and build folders are gigabytes, and libraries are for another machine."""
    root = FOLDER.parents[1]
    sent = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    left = {line.removeprefix("**/").strip("/") for line in sent if line and line[0] != "#"}
    made_by_the_build = {"_version.py"}
    passed = {line.strip("/") for line in (root / ".gitignore").read_text().split()}
    assert passed - made_by_the_build <= left
    assert ".git" not in left  # the version is made of it
