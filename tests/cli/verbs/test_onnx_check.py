from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.invoke import tvm_hetero
from tests.frontends.onnx.models import make, value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A convolution of an open image, and a slice up to what an input says."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="stem"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Slice", ["r", "from", "to"], ["y"], name="cut"),
    ]
    constants = {"w": np.zeros((4, 3, 3, 3), np.float32), "from": np.array([0])}
    model = make(nodes, {"x": ["N", 3, "h", "w"]}, ["y"], constants)
    model.graph.input.append(value("to", [1], TensorProto.INT64))
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_all_that_is_needed_is_told_at_once_and_is_enough(file: Path) -> None:
    told = tvm_hetero("onnx-check", file, "--json")
    assert told.status == 1
    report = json.loads(told.out)
    assert report["opset"] == 13
    assert report["operators"] == {"Conv": 1, "Relu": 1, "Slice": 1}
    assert report["inputs"][0] == {
        "name": "x", "dtype": "float32", "shape": "[N, 3, h, w]", "open": True,
    }  # fmt: skip
    assert len(report["problems"]) == 2 and "node 2 'cut' (Slice)" in report["problems"][1]
    assert report["needed"] == ["--shape x=1x3x224x224", "--value to=NUMBER"]
    options = [part for option in report["needed"] for part in shlex.split(option)]
    fine = tvm_hetero("onnx-check", file, *[part.replace("NUMBER", "1") for part in options])
    assert (fine.status, fine.out.splitlines()[-1]) == (0, "every node can be imported")


def test_it_is_told_in_words_too(file: Path) -> None:
    told = tvm_hetero("onnx-check", file)
    assert told.status == 1
    lines = told.out.splitlines()
    assert lines[:2] == ["opset 13, 3 nodes", "Conv x1, Relu x1, Slice x1"]
    assert "needed: --shape x=1x3x224x224 --value to=NUMBER" in lines
    assert lines[-1] == "2 problems"


def test_every_refused_node_is_a_problem(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("TfIdfish", ["x"], ["a"], name="one", domain="com.example"),
        helper.make_node("Other", ["x"], ["b"], name="two", domain="com.example"),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    model = make(nodes, {"x": [2, 3]}, ["y"])
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    onnx.save(model, tmp_path / "net.onnx")
    report = json.loads(tvm_hetero("onnx-check", tmp_path / "net.onnx", "--json").out)
    assert [problem.split(" is of")[0] for problem in report["problems"]] == [
        "node 0 'one' (com.example::TfIdfish)",
        "node 1 'two' (com.example::Other)",
    ]
    assert report["operators"]["com.example::Other"] == 1


def test_what_is_no_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"no model")
    told = tvm_hetero("onnx-check", tmp_path / "net.onnx")
    assert told.status == 2 and "is not an ONNX file" in told.err


def test_a_list_of_refusals_is_a_list_in_an_error(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("One", ["x"], ["a"], domain="com.example"),
        helper.make_node("Two\nerror: forged", ["a"], ["b"], domain="com.example"),
        helper.make_node("Two\n  forged", ["x"], ["y"], domain="com.example"),
    ]
    model = make(nodes, {"x": [2, 3]}, ["y", "b"])
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    onnx.save(model, tmp_path / "net.onnx")
    told = tvm_hetero("tune", tmp_path / "net.onnx")
    lines = told.err.splitlines()
    assert told.status == 2 and lines[0] == "error: 2 nodes cannot be imported (opset 13):"
    assert [line[:8] for line in lines[1:]] == ["  node 0", "  node 2"]
