"""A network in float32 and in bytes, made once and kept in a folder: artifacts, and the QDQ file.

Making takes minutes (kernels are measured), running seconds: whoever measures beside others makes
everything first, and has the machine for itself while it runs.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx

from benchmarks.execution.cases import one_device
from benchmarks.execution.networks import load_network
from benchmarks.provenance import commit_name
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.post_training import (
    prepare_model,
    quantizable_nodes,
    quantize_model,
)
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition

_CALIBRATION = range(2)


@dataclass(frozen=True)
class Int8Network:
    """What is known of a network in a folder.

    Attributes
    ----------
    nodes : that were quantised.
    tasks : of ours in bytes.
    commit : that made it.
    """

    nodes: int
    tasks: int
    commit: str


def make_int8_network(name: str, folder: Path) -> None:
    """Quantise a network, build both, and write everything into a folder that is made."""
    plain = load_network(name)
    prepared = prepare_model(plain)
    nodes = [node.name for node in quantizable_nodes(prepared)]
    ours, _ = _built(plain)
    with Executor(ours) as executor:
        inputs = [executor.random_inputs(seed) for seed in _CALIBRATION]
    codes = quantize_model(prepared, inputs, nodes)
    narrow, tasks = _built(codes)
    folder.mkdir(parents=True, exist_ok=True)
    ours.save(folder / "float32.hetero")
    narrow.save(folder / "int8.hetero")
    onnx.save(codes, folder / "codes.onnx")
    note = asdict(Int8Network(len(nodes), tasks, commit_name()))
    (folder / "network.json").write_text(json.dumps(note))  # last: what has it is whole


def is_made(folder: Path) -> bool:
    """Whether a network was made into a folder."""
    return (folder / "network.json").is_file()


def read_int8_network(folder: Path) -> tuple[Int8Network, Executable, Executable, bytes]:
    """What is known of it, ours in float32 and in bytes, and the QDQ file."""
    note = Int8Network(**json.loads((folder / "network.json").read_text()))
    ours, narrow = (load_artifact(folder / f"{key}.hetero") for key in ("float32", "int8"))
    return note, ours, narrow, (folder / "codes.onnx").read_bytes()


def _built(proto: onnx.ModelProto) -> tuple[Executable, int]:
    """A model on one core, and of how many tasks."""
    options = PartitionOptions(cost_model="profiled-alone")
    result = partition(from_onnx(proto), one_device(1), options)
    return build(result.placed, single=False), len(result.problem.tasks)
