"""``--precision`` of ``partition``: what it prints and writes, and where it is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.invoke import tvm_hetero
from tests.frontends.onnx.models import two_branches
from tests.kernels.helpers import ZEN4, runs_here
from tests.models import two_cpus
from tvm_hetero.platform import Platform

WIDTH = 2048


@pytest.fixture
def workplace(tmp_path: Path, cache: Path) -> Path:
    """A folder with a model and a platform of one core that has the instruction."""
    onnx.save(two_branches(), tmp_path / "small.onnx")
    big = replace(two_cpus().devices[0], target={"kind": "llvm", "mcpu": "znver4"})
    Platform((big,)).save(tmp_path / "p.yaml")
    return tmp_path


def wide_product() -> onnx.ModelProto:
    """One row by 16 MB of weights: half of the bytes are half of the time, however busy it is."""
    weights = np.random.default_rng(0).standard_normal((WIDTH, WIDTH), np.float32) / WIDTH
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, WIDTH))] for name in ("x", "y")
    ]
    graph = helper.make_graph([node], "wide", *ends, [numpy_helper.from_array(weights, "w")])
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


@pytest.mark.skipif(not runs_here(ZEN4), reason="the processor has no such instruction")
def test_partition_says_and_keeps_what_it_promises(workplace: Path) -> None:
    onnx.save(wide_product(), workplace / "wide.onnx")
    np.savez(workplace / "x.npz", x=np.ones((1, WIDTH), np.float32))
    outcome = tvm_hetero(
        *("partition", workplace / "wide.onnx", "--platform", workplace / "p.yaml"),
        *("--precision", "auto", "--accuracy", "0.05", "--calibration", workplace / "x.npz"),
        *("--cost-model", "profiled-alone", "--no-measure", "--json"),
        *("-o", workplace / "net.hetero"),
    )
    assert outcome.status == 0, outcome.err
    promise = json.loads(outcome.out)["precision"]
    assert promise["accuracy"] == 0.05 and 0 < promise["measured"] <= 0.05
    assert len(promise["tasks"]) == 1
    assert (promise["inputs"], promise["held_out_inputs"]) == (1, 0) and "seed" not in promise
    manifest = json.loads((workplace / "net.hetero" / "manifest.json").read_text())
    assert manifest["precision"] == promise
    rows = json.loads(tvm_hetero("show", workplace / "net.hetero", "--kernels", "--json").out)
    narrow = {row["kernel"] for row in rows if row["precision"] == "bfloat16"}
    assert narrow == {task.split(".", 1)[1] for task in promise["tasks"]}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--precision", "half"], "expected one of float32, bfloat16, int8, auto"),
        (["--accuracy", "0.1"], "is for precision auto or int8, not float32"),
        (["--precision", "auto", "--cost-model", "analytical"], "measures nothing"),
        (["--precision", "auto", "--calibration", "missing.npz"], "cannot be read as .npz"),
    ],
)
def test_what_makes_no_sense_is_refused(workplace: Path, options: list[str], reason: str) -> None:
    outcome = tvm_hetero(
        *("partition", workplace / "small.onnx", "--platform", workplace / "p.yaml"),
        *(*options, "-o", workplace / "net.hetero"),
    )
    assert outcome.status == 2 and reason in outcome.err
    assert not (workplace / "net.hetero").exists()
