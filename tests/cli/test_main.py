from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.invoke import tvm_hetero
from tests.waiting import LIMIT, eventually
from tvm_hetero import __version__
from tvm_hetero.cli import main
from tvm_hetero.cli.main import app
from tvm_hetero.cli.verb_table import VERBS, load_verb

HEAVY = {"tvm", "onnx", "ortools", "onnxruntime", "numpy", "scipy", "yaml", "asyncio", "ssl"}


def python(*args: str, code: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args, *(["-c", code] if code else [])],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_help_lists_every_verb() -> None:
    result = tvm_hetero("--help")
    assert result.status == 0
    for verb in VERBS:
        assert f"  {verb} " in result.out
    assert "..." not in result.out.split("Commands:")[1]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sch", {"schedule"}),
        ("partition --pl", {"--platform", "--plain-sums", "--plan"}),
        ("doctor --j", {"--json"}),
        ("partition n.onnx --objective th", {"throughput"}),
        ("schedule p.json --solver mil", {"milp", "milp-split"}),
        ("zoo layers-resnet1", {"layers-resnet152"}),
        ("zoo vgg --platform sched-nv", {"sched-nvl"}),
        ("plan llama3-4", {"llama3-405b"}),
        ("bench net.hetero --against single,", {"single,onnxruntime"}),
        ("adapt net.hetero --policies none,od", {"none,odin"}),
        ("run net.hetero --adapt resol", {"resolve"}),
        ("serve net.hetero --policy one", {"one-stage"}),
        ("serve net.hetero --policy ./", set()),  # the shell's own: files
    ],
)
def test_a_shell_completes_verbs_options_and_names(
    typed: str, offered: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TVM_HETERO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"tvm-hetero {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    told = python("-m", "tvm_hetero")
    assert told.returncode == 0, told.stderr
    assert set(told.stdout.split()) == offered


def test_completing_a_verb_loads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all verbs' options, names took three times as long to complete as the help to print."""
    monkeypatch.setenv("_TVM_HETERO_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "tvm-hetero p")
    told = python(
        code="import sys; from tvm_hetero.cli.main import main; main([]);"
        "print([n for n in sys.modules if '.cli.verbs.' in n])"
    ).stdout
    assert told.splitlines()[-1] == "[]"
    offered = {verb: line for verb, line in VERBS.items() if verb.startswith("p")}
    assert {"partition", "plan", "place-layers"} <= offered.keys()
    # zsh doubles an apostrophe.
    lines = [f'"{verb}":"{line}"'.replace("'", "''") for verb, line in offered.items()]
    assert [line for line in lines if line not in told] == []


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help(verb: str) -> None:
    result = tvm_hetero(verb, "--help")
    assert result.status == 0
    assert f"tvm-hetero {verb}" in result.out or f"{verb} [OPTIONS]" in result.out
    assert load_verb(verb).get_short_help_str(limit=200) == VERBS[verb]


def test_module_runs_and_version_is_shown() -> None:
    result = python("-m", "tvm_hetero", "--version")
    assert result.returncode == 0
    assert result.stdout == f"tvm-hetero {__version__}\n"


def test_no_color_is_obeyed(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ["schedule", str(files / "problem.json"), "--solver", "single"]
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in CliRunner().invoke(app, args, color=True).output
    monkeypatch.setenv("NO_COLOR", "1")
    result = CliRunner().invoke(app, args, color=True)
    assert result.exit_code == 0
    assert "\x1b[" not in result.output


def test_help_imports_nothing_heavy_and_no_verb() -> None:
    result = python(
        code="import sys; from tvm_hetero.cli.main import main; main(['--help']);"
        f"print(sorted(n for n in sys.modules if n in {HEAVY} or '.cli.verbs.' in n))"
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_error_is_one_line_and_an_exit_status(tmp_path: Path) -> None:
    result = python("-m", "tvm_hetero", "show", str(tmp_path / "none.json"))
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("before", [
    ["schedule", "{problem}", "-o"], ["show", "{problem}", "--html"], ["show"],
    ["check", "{problem}"], ["partition", "model.onnx", "-o"], ["run"], ["serve"], ["generate"],
])  # fmt: skip
def test_a_name_that_the_system_refuses_is_one_line(files: Path, before: list[str]) -> None:
    args = [arg.format(problem=files / "problem.json") for arg in before]
    result = tvm_hetero(*args, "x" * 300)
    assert result.status == 2
    assert len(result.err.splitlines()) == 1
    assert result.err.startswith("error: ")


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    code = (
        "import os, sys; os.rmdir(os.getcwd()); from tvm_hetero.cli.main import app; "
        "app(['show', 's.json', '--html', 'plan.html'])"
    )
    gone = tmp_path / "gone"
    gone.mkdir()
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=gone, capture_output=True, text=True, timeout=120,
        check=False, env={**os.environ, "PYTHONPATH": str(Path(main.__file__).parents[2])},
    )  # fmt: skip
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize("args", [["--debug", "show"], ["show", "--debug"]])
def test_debug_shows_the_traceback(args: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main([*args, "none.json"]) == 2
    said = capfd.readouterr().err
    assert "Traceback" in said
    assert said.splitlines()[-1].startswith("error: ")


def test_error_text_cannot_reach_the_terminal_raw(files: Path) -> None:
    (files / "evil.json").write_text('{"format": "\\u001b[2Jx\\nerror: y"}')
    result = tvm_hetero("show", files / "evil.json")
    assert result.status == 2
    assert "\x1b" not in result.err
    assert len(result.err.splitlines()) == 1


def interrupted(tmp_path: Path, loaded: str, then: str, *args: str) -> tuple[int, str, str]:
    """Status, output and errors of a verb; the signal comes when Python looks for a module."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys, time\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {loaded!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        f"            {then}\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    result = subprocess.run(
        [sys.executable, "-m", "tvm_hetero", *args],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return result.returncode, result.stdout, result.stderr


def test_interrupt_ends_with_130(files: Path, tmp_path: Path) -> None:
    """Where the main thread does not hear of it, since it waits for long."""
    args = ("check", str(files / "problem.json"), str(files / "answer.json"))
    status, out, err = interrupted(tmp_path, "tvm_hetero.problem.model", "time.sleep(50)", *args)
    assert (status, out, err) == (130, "", "interrupted; no file is half-written\n")


def test_an_interruption_after_a_file_was_written_does_not_deny_it(files: Path) -> None:
    """While the answer is shown: nobody reads a pipe that is full."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, bytes(4096)):
            pass
    os.set_blocking(writer, True)
    out = files / "out.json"
    command = ["schedule", files / "problem.json", "--solver", "single", "--json", "-o", out]
    with subprocess.Popen(
        [sys.executable, "-m", "tvm_hetero", *command],
        stdout=writer, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert eventually(out.exists)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
    os.close(reader)
    os.close(writer)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted; no file is half-written"


@pytest.mark.parametrize("loaded", ["typer", "tvm_hetero.cli.verbs.zoo"])
def test_interrupt_while_it_starts_has_no_traceback(tmp_path: Path, loaded: str) -> None:
    status, _, err = interrupted(tmp_path, loaded, "pass", "zoo")
    assert "Traceback" not in err
    assert status == 130


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_outputs_are_written_to_by_no_one(files: Path, closed: str) -> None:
    problem, answer = files / "problem.json", files / "answer.json"
    command = f"{sys.executable} -m tvm_hetero schedule {problem} --solver single -o {answer}"
    result = subprocess.run(
        f"{command} {closed}", shell=True, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0
    # On a busy machine also what takes more than 2 s is said.
    lines = [line.strip() for line in result.stderr.splitlines()]
    said = [line for line in lines if line and not line.startswith("(")]
    assert not said or said[0].startswith("stopped: single makes one plan")
    assert tvm_hetero("check", problem, answer).status == 0


def test_a_full_disk_is_one_line(files: Path) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tvm_hetero", "schedule", str(files / "problem.json"),
             "--solver", "single", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    said = result.stderr.splitlines()[-1]
    assert said.startswith("error: the output cannot be written: No space left")


def test_what_a_full_disk_did_not_take_is_not_tried_again() -> None:
    code = (
        "import sys; from tvm_hetero.cli.main import drop_output; sys.stdout.write('held'); "
        "drop_output(); sys.exit(1)"
    )
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize("args", [["schedul", "x"], ["schedule"], ["schedule", "a", "--nope"]])
def test_wrong_usage_is_status_2_without_traceback(args: list[str]) -> None:
    result = tvm_hetero(*args)
    assert result.status == 2
    assert "Traceback" not in result.err
    assert "rror: " in result.err


def test_a_closed_pipe_is_no_traceback(files: Path) -> None:
    command = f"{sys.executable} -m tvm_hetero show {files / 'problem.json'} | true"
    result = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in result.stderr


def test_output_that_the_terminal_cannot_encode(files: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tvm_hetero", "show", str(files / "problem.json")],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
        check=False,
    )
    assert result.returncode == 0
    assert b"critical path" in result.stdout


@pytest.mark.parametrize("value", [str(2**63), str(10**30)])
def test_an_integer_that_no_library_holds_is_refused_by_its_option(value: str) -> None:
    result = tvm_hetero("bench", "net.hetero", "--warmup", value)
    assert result.status == 2
    assert f"--warmup {value}: expected at most {2**63 - 1}" in result.err
