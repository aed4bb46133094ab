"""Who does what docs/first-ten-minutes.md says gets a measured, pictured, served plan."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.page_commands import (
    FIRST_TEN_MINUTES,
    INSTALLING,
    MADE,
    as_installed,
    commands_of,
    free_port,
    run_in_one_shell,
    with_port,
)

LIMIT = 300.0
COMMANDS = commands_of(FIRST_TEN_MINUTES.read_text(encoding="utf-8"))
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("curl"), reason="no curl")]


def small_model(path: Path) -> None:
    """Two branches of convolutions on a picture of the page's size, which is made small first."""
    rng = np.random.default_rng(0)
    weights = {
        "left": rng.standard_normal((4, 3, 3, 3)), "right": rng.standard_normal((4, 3, 1, 1)),
    }  # fmt: skip
    nodes = [
        helper.make_node("AveragePool", ["x"], ["small"], kernel_shape=[16, 16], strides=[16, 16]),
        helper.make_node("Conv", ["small", "left"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["small", "right"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["joined"], axis=1),
        helper.make_node("GlobalAveragePool", ["joined"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 224, 224))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 1, 1))],
        [numpy_helper.from_array(w.astype("float32"), name) for name, w in weights.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def test_the_page_in_order(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    small_model(work / "model.onnx")
    environment, port = as_installed(tmp_path / "bin"), free_port()
    # The test has a model of its own, and is not here to measure.
    typed = [
        with_port(each.text, port)
        .replace("--seconds 5", "--seconds 0.5")
        .replace("--repeat 20", "--repeat 2")
        for each in COMMANDS
        if each.section != INSTALLING and "light_models" not in each.text
    ]
    told = list(zip(typed, run_in_one_shell(typed, work, environment, LIMIT), strict=True))

    def said(pattern: str) -> str:
        (text,) = [text for command, text in told if re.search(pattern, command)]
        return text

    assert "valid" in said("tvm-hetero check")
    assert "largest difference from ONNX Runtime's outputs" in said("tvm-hetero bench")
    # The server may have said something beside it.
    (about,) = re.findall(r"^{.*}", said("/v2/models/net$"), re.M)
    assert json.loads(about)["inputs"][0]["shape"] == [-1, 3, 224, 224]
    assert "(1, 8, 1, 1)" in said("numpy.load")
    assert "answered" in said("load-test")
    assert [name for name in MADE if (work / name).stat().st_size < 100] == []
    assert 'id="explorer"' in (work / "plan.html").read_text(encoding="utf-8")


def test_the_page_installs_nothing_but_the_wheel_with_extras_that_it_has():
    install = [each.text for each in COMMANDS if each.section == INSTALLING]
    (pip,) = [text for text in install if text.startswith("pip ")]
    named = re.fullmatch(r"pip install 'tvm_hetero\[([\w,]+)\]'", pip)
    assert named is not None
    setup = (FIRST_TEN_MINUTES.parents[1] / "setup.py").read_text(encoding="utf-8")
    assert [extra for extra in named[1].split(",") if f'"{extra}": [' not in setup] == []
    programs = {each.text.split()[0] for each in COMMANDS if each.section != INSTALLING}
    assert programs == {"tvm-hetero", "curl", "python", "kill", "wait"}


def test_a_command_that_fails_is_named(tmp_path: Path):
    with pytest.raises(AssertionError, match=r"^ls nowhere: .*nowhere"):
        run_in_one_shell(["echo a", "ls nowhere", "echo b"], tmp_path, os.environ, LIMIT)
    with pytest.raises(AssertionError, match=r"^false && true: "):
        run_in_one_shell(["false && true", "echo b"], tmp_path, os.environ, LIMIT)
    assert run_in_one_shell(["echo a", "true"], tmp_path, os.environ, LIMIT) == ["a\n", ""]
