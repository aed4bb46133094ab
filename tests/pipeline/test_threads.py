"""Models that several threads of one process partition at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper

from tests.models import two_cpus
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.pipeline.hetero_partition import HeteroPartition

THREADS = 3


def model(number: int) -> onnx.ModelProto:
    """Chains of unlike lengths, which end in what is lowered through tensor expressions."""
    nodes, last = [], "x"
    for i in range(3 + number):
        nodes.append(helper.make_node("Sin" if i % 2 else "Tanh", [last], [f"v{i}"]))
        last = f"v{i}"
    nodes += [
        helper.make_node("Softmax", [last], ["s"]),
        helper.make_node("ReduceMax", ["s"], ["y"]),
    ]
    ends = (("x", [9, 7 + number]), ("y", [1, 1]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, list(s)) for name, s in ends)
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def expected(number: int, x: np.ndarray) -> float:
    for i in range(3 + number):
        x = np.sin(x) if i % 2 else np.tanh(x)
    e = np.exp(x - x.max(-1, keepdims=True))
    return float((e / e.sum(-1, keepdims=True)).max())


def test_threads_that_partition_at_once_get_right_models() -> None:
    together = Barrier(THREADS)

    figures = {"peak_flops": 1e10, "bandwidth": 1e10, "launch": 1e-6}
    platform = two_cpus()
    devices = tuple(replace(device, **figures) for device in platform.devices)
    platform = replace(platform, devices=devices)

    def work(number: int) -> float:
        partition = HeteroPartition(platform, cost_model="analytical", solver="heft")
        x = np.linspace(-2, 2, 9 * (7 + number), dtype="float32").reshape(9, -1)
        together.wait()
        with Executor(build(partition(from_onnx(model(number))))) as executor:
            found = float(executor.run(x=tvm.runtime.tensor(x))[0].numpy()[0, 0])
        return abs(found - expected(number, x))

    with ThreadPoolExecutor(THREADS) as pool:
        assert max(pool.map(work, range(THREADS))) < 1e-5
