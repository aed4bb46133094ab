"""From a lowered module to a task graph: one task a kernel call, one tensor an output.

Views are no tasks: they cost nothing and are made again by whoever reads them. Ids of tasks and
names of tensors come from `tvm_hetero.passes.lowered_main.LoweredMain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.tir.gathers import find_gathered
from tvm_hetero.kernels.tir.index_values import FLOPS
from tvm_hetero.passes.attributes import OUTPUT_NAMES
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.lowered_main import (
    KernelCall,
    LoweredMain,
    TensorSource,
    names_of,
    read_main,
    tensor_bytes,
)
from tvm_hetero.passes.states import state_bytes, state_sets, states_of
from tvm_hetero.problem.graph import Edge, Task, TaskGraph


@dataclass(frozen=True)
class ExtractedTasks:
    """The tasks of a module.

    Attributes
    ----------
    main : the function, read.
    graph : the task graph; task i is call i of `main`.
    kernels : every distinct kernel once, in order of first call.
    kernel_of : the name of each task's kernel.
    inputs, outputs : names of the model's inputs and outputs, in order.
    input_readers : for each input, the tasks that read it; output_roots : what is returned.
    states : which inputs are states (`tvm_hetero.passes.states`), by position.
    state_bytes : of the states that a task keeps for one element, where it keeps any.
    state_sets : how many sets of states there are room for.
    """

    main: LoweredMain
    graph: TaskGraph
    kernels: tuple[Kernel, ...]
    kernel_of: dict[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    input_readers: tuple[tuple[str, ...], ...]
    output_roots: tuple[TensorSource | None, ...]
    states: tuple[int, ...]
    state_bytes: dict[str, int]
    state_sets: int


def extract_tasks(mod: tvm.IRModule) -> ExtractedTasks:
    """Read the tasks of a lowered module.

    Raises
    ------
    ModelError
        If the module is not lowered, or has no kernel at all.
    """
    main = read_main(mod)
    if not main.calls:
        raise ModelError("the model computes nothing: it has no operator that needs a kernel")
    kernels = _distinct_kernels(mod, main)
    ids = main.task_ids
    tasks = [_task(main, call, kernels) for call in main.calls]
    results = main.results()
    return ExtractedTasks(
        main=main,
        graph=TaskGraph(tasks, _edges(main, ids)),
        kernels=tuple(kernels.values()),
        kernel_of={ids[call.position]: call.kernel.name_hint for call in main.calls},
        inputs=main.inputs,
        outputs=tuple(names_of(mod, OUTPUT_NAMES, len(results), "output")),
        input_readers=_input_readers(main, ids),
        output_roots=tuple(main.root(result) for result in results),
        states=states_of(main),
        state_bytes=state_bytes(main),
        state_sets=state_sets(main),
    )


def _distinct_kernels(mod: tvm.IRModule, main: LoweredMain) -> dict[str, Kernel]:
    kernels: dict[str, Kernel] = {}
    for call in main.calls:
        name = call.kernel.name_hint
        if name not in kernels:
            func = mod[call.kernel]
            flops = _flops(name, func)
            weights = tuple(i for i, c in enumerate(main.constants(call)) if c is not None)
            kernels[name] = Kernel(name, func, max(0.0, flops), _traffic(call, func), weights)
    return kernels


def _flops(name: str, func: tvm.tirx.PrimFunc) -> float:
    """Arithmetic of a kernel; it says so itself where that depends on what it reads."""
    if func.attrs is not None and FLOPS in func.attrs:
        return float(func.attrs[FLOPS])
    return float(tvm.s_tir.analysis.estimate_tir_flops(tvm.IRModule({name: func})))


def _traffic(call: KernelCall, func: tvm.tirx.PrimFunc) -> float:
    """Bytes that a kernel must move at least: every argument and every output once. Of a table in
    which it looks something up, no more than comes out.
    """
    made = sum(tensor_bytes(ty) for ty in call.outputs)
    sizes = [tensor_bytes(arg.ty) for arg in call.args]
    tables = find_gathered(func)
    read = sum(min(size, made) if i in tables else size for i, size in enumerate(sizes))
    return float(read + made)


def _task(main: LoweredMain, call: KernelCall, kernels: dict[str, Kernel]) -> Task:
    kernel = kernels[call.kernel.name_hint]
    constants = zip(call.args, main.constants(call), strict=True)
    return Task(
        id=main.task_ids[call.position],
        op=call.kernel.name_hint,
        weight_bytes=sum(tensor_bytes(arg.ty) for arg, value in constants if value is not None),
        output_bytes=sum(tensor_bytes(ty) for ty in call.outputs),
        flops=kernel.flops,
        bytes=kernel.bytes,
    )


def _edges(main: LoweredMain, ids: Sequence[str]) -> list[Edge]:
    edges = []
    for call in main.calls:
        for root in main.reads(call):
            if root.call is not None:
                size = tensor_bytes(main.type_of(root))
                name = main.tensor_name(root)
                edges.append(Edge(ids[root.call], ids[call.position], size, name))
    return edges


def _input_readers(main: LoweredMain, ids: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    readers: list[list[str]] = [[] for _ in main.params]
    for call in main.calls:
        for root in main.reads(call):
            if root.call is None:
                readers[root.index].append(ids[call.position])
    return tuple(tuple(r) for r in readers)
