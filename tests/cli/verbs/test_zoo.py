from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tvm_hetero import zoo
from tvm_hetero.problem import Problem


def test_lists_every_network_and_platform() -> None:
    result = tvm_hetero("zoo")
    assert result.status == 0
    lines = result.out.splitlines()
    for name in zoo.names():
        assert any(line.split()[:2] == [name, str(zoo.describe(name).tasks)] for line in lines)
    for name in zoo.platform_names():
        assert name in lines[-1]


def test_list_as_json() -> None:
    listed = json.loads(tvm_hetero("zoo", "--json").out)
    assert listed["networks"]["resnet50"]["parameters"] == {"depth": 50, "resolution": 224}
    assert listed["networks"]["layered"]["size"] == "tasks"
    assert "diviml-6" in listed["platforms"]


def test_writes_a_problem(tmp_path: Path) -> None:
    out = tmp_path / "problem.json"
    result = tvm_hetero(
        "zoo", "gpt3-175b", "--platform", "diviml-6", "-o", out, "--batch", "16",
        "--objective", "throughput", "--size", "4", "--set", "context=128",
    )  # fmt: skip
    assert result.status == 0
    assert "wrote" in result.out
    problem = Problem.load(out)
    assert (problem.objective.kind, problem.batch) == ("throughput", 16)
    assert len(problem.tasks) == 4 + 2 * 4
    assert problem.name == "gpt3-175b on diviml-6"


def test_the_problem_can_be_scheduled(tmp_path: Path) -> None:
    out = tmp_path / "problem.json"
    assert tvm_hetero("zoo", "module", "--size", "6", "--seed", "2", "-o", out).status == 0
    assert tvm_hetero("schedule", out, "--solver", "heft").status == 0


def test_without_output_it_is_described() -> None:
    result = tvm_hetero("zoo", "resnet18")
    assert result.status == 0
    assert "25, joined by 32 edges" in result.out


def test_json_is_the_problem_alone() -> None:
    result = tvm_hetero("zoo", "resnet18", "--json")
    assert json.loads(result.out)["name"] == "resnet18 on diviml"


def test_a_platform_file(files: Path) -> None:
    path = files / "platform.json"
    zoo.platform("phone").save(path)
    result = tvm_hetero("zoo", "lstm", "--platform", path, "--set", "cell=gru")
    assert result.status == 0
    assert "npu" in result.out


def test_weights_of_a_network_and_of_a_file(tmp_path: Path) -> None:
    result = tvm_hetero("zoo", "layers-vgg16", "--hints")
    assert result.status == 0
    assert re.search(r"conv1_2\s+1,849,688,064\s+11\.95%", result.out)
    assert "all: 15,4" in result.out
    path = tmp_path / "two.layers"
    path.write_text("network two\na, 4, 4, 3, 3, 3, 8\nb, fc, 4, 4, 8, 10\n")
    weights = json.loads(tvm_hetero("zoo", path, "--hints", "--json").out)["weights"]
    assert weights == {"input": 0, "a": 3456, "b": 1280, "output": 0}


def test_a_wrong_file_of_layers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.layers"
    path.write_text("network two\na, 4, 4\n")
    result = tvm_hetero("zoo", path)
    assert result.status == 2 and "line 2: expected 'name, H, W, C, R, S, K'" in result.err
    result = tvm_hetero("zoo", path, "--size", "3")
    assert result.status == 2 and "a file of layers has no parameters" in result.err


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["resnet51"], "did you mean 'resnet50'?"),
        (["resnet50", "--platform", "divimal"], "did you mean 'diviml'?"),
        (["resnet50", "--seed", "1"], "resnet50 is not random"),
        (["light-vgg19", "--size", "1"], "has one size only"),
        (["resnet50", "--set", "depth"], "expected KEY=VALUE"),
        (["resnet50", "--set", "deph=50"], "did you mean 'depth'?"),
        (["resnet50", "--set", "depth=big"], "expected an integer for depth"),
        (["gnn", "--set", "scale=big"], "expected a number for scale"),
        (["resnet50", "--objective", "latncy"], "did you mean 'latency'?"),
        (["resnet50", "-o", "/nowhere/problem.json"], "there is no folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(args: list[str], text: str) -> None:
    result = tvm_hetero("zoo", *args)
    assert result.status == 2
    assert text in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_does_not_import_tvm() -> None:
    code = (
        "import sys\nfrom tvm_hetero.cli.main import main\n"
        "status = main(['zoo', 'light-squeezenet'])\n"
        "print(status, sorted(m for m in sys.modules if m.split('.')[0] in ('tvm', 'onnx')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout.splitlines()[-1] == "0 []"
