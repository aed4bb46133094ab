"""A model whose every name is an attack on the terminal, by the verbs from file to trace.

What each writes is looked at as `test_hostile_names` does: terminal, page, picture, trace.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.cli.test_hostile_names import ATTACK, check_page, name, run


def model() -> onnx.ModelProto:
    """Two products, of which each tensor, node, constant and domain is called something bad."""
    weight = numpy_helper.from_array(np.ones((4, 4), "float32"), name("w"))
    nodes = [
        helper.make_node("MatMul", [name("x"), name("w")], [name("h")], name=name("first")),
        helper.make_node("Tanh", [name("h")], [name("t")], name=name("second")),
        helper.make_node("MatMul", [name("t"), name("w")], [name("y")], name=name("third")),
    ]
    inputs = [helper.make_tensor_value_info(name("x"), TensorProto.FLOAT, [2, 4])]
    outputs = [helper.make_tensor_value_info(name("y"), TensorProto.FLOAT, [2, 4])]
    graph = helper.make_graph(nodes, name("g"), inputs, outputs, [weight])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name=ATTACK)


def test_from_the_file_to_the_trace(tmp_path: Path) -> None:
    path, made = tmp_path / "m.onnx", tmp_path / "net.hetero"
    onnx.save(model(), path)
    assert run("onnx-check", path) == 0
    words = ("--quick", "--no-measure", "--split", 2, "-o", made)
    assert run("partition", path, *words) == 0
    assert run("show", made, "--html", tmp_path / "o.html", "--svg", tmp_path / "o.svg") == 0
    check_page(tmp_path / "o.html")
    check_page(tmp_path / "o.svg")
    assert run("run", made, "--random", "--repeat", 2, "--trace", tmp_path / "t.json") == 0
    # A viewer shows the texts of a trace: they are clean within JSON's escapes, too.
    for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"]:
        assert str(event.get("name", "")).isprintable(), event
    assert run("run", made, "--input", tmp_path / name("none").replace("/", "")) != 0
    # A model that is refused is named as it may be shown.
    broken = model()
    broken.graph.node[1].op_type = name("Op")
    onnx.save(broken, path)
    assert run("onnx-check", path) != 0
    assert run("partition", path, *words) != 0
