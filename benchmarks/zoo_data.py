"""Make the zoo's stored networks anew from the nine models of the onnx wheel.

    python benchmarks/zoo_data.py [--output FOLDER]

Each model is imported, lowered and fused as for a partition over processors; what it computes, not
what it costs, is written to tvm_hetero/zoo/data. Weights are random, and only their sizes are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tvm_hetero import relay
from tvm_hetero.frontends.onnx import light_models
from tvm_hetero.passes.extract_tasks import ExtractedTasks, extract_tasks
from tvm_hetero.passes.io_tasks import INPUT_OP, OUTPUT_OP, add_io_tasks
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import LoweredMain, tensor_bytes
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.zoo.files import FOLDER, store
from tvm_hetero.zoo.work_graph import Kind, LayerWork, WorkGraph


def main(argv: Sequence[str] | None = None) -> list[WorkGraph]:
    """Write every model's work graph."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=FOLDER)
    parser.add_argument("--models", default=",".join(sorted(light_models())))
    args = parser.parse_args(argv)
    graphs = []
    for name in args.models.split(","):
        graph = work_graph(name)
        store(graph, args.output / f"{name}.json")
        print(f"{name}: {len(graph.works)} tasks, {graph.flops / 1e9:.3g} Gflop")
        graphs.append(graph)
    return graphs


def work_graph(name: str) -> WorkGraph:
    """The work of a light model after import and fusion."""
    module = relay.frontend.from_onnx(light_models()[name], random_weights=0)
    tasks = extract_tasks(LowerToTasks()(module))
    depthwise = _depthwise_tasks(tasks.main)
    graph = _with_io(tasks)
    works = tuple(_work(task, task.id in depthwise) for task in graph.tasks)
    return WorkGraph(name, works, graph.edges)


def _with_io(tasks: ExtractedTasks) -> TaskGraph:
    """The task graph with a task for each input and output, as for devices with own memories."""
    main = tasks.main
    inputs = [
        (tensor_bytes(param.ty), readers)
        for param, readers in zip(main.params, tasks.input_readers, strict=True)
    ]
    outputs = [
        None
        if root is None or root.call is None
        else (main.task_ids[root.call], main.tensor_name(root), tensor_bytes(main.type_of(root)))
        for root in tasks.output_roots
    ]
    return add_io_tasks(tasks.graph, inputs, outputs)


def _depthwise_tasks(main: LoweredMain) -> set[str]:
    """Tasks with a weight of shape (channels, 1, window, window): they are not packed."""
    found = set()
    for call in main.calls:
        for arg, value in zip(call.args, main.constants(call), strict=True):
            shape = [int(n) for n in arg.ty.shape] if value is not None else []
            if len(shape) == 4 and shape[0] > 1 and shape[1] == 1 and shape[2] > 1:
                found.add(main.task_ids[call.position])
    return found


def _work(task: Task, depthwise: bool) -> LayerWork:
    return LayerWork(
        id=task.id,
        op=task.op,
        kind=_kind(task.op, depthwise),
        flops=task.flops,
        traffic=max(0, int(task.bytes) - task.weight_bytes),
        weights=task.weight_bytes,
        output=task.output_bytes,
    )


def _kind(op: str, depthwise: bool) -> Kind:
    if op == INPUT_OP:
        return "input"
    if op == OUTPUT_OP:
        return "output"
    if "conv2d" in op:
        return "depthwise" if depthwise else "conv"
    return "gemm" if "dense" in op or "matmul" in op else "elementwise"


if __name__ == "__main__":
    main()
