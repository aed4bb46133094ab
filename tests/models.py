"""Small Relax models and placements for the tests of passes and runtime."""

from __future__ import annotations

import itertools
import math
import os
import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_hetero.devices.target import device_target
from tvm_hetero.kernels.tir.batched import batch_kernel
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.attributes import INPUT_NAMES, OUTPUT_NAMES
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.problem.simulate import simulate

NATIVE = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}
PLAIN = {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}


def two_cpus() -> Platform:
    """Two CPU places that differ in what their code may use; on cores of their own if possible."""
    cores = sorted(os.sched_getaffinity(0))
    return Platform(
        devices=(
            Device("big", target=NATIVE, cores=(cores[0],), overlap=True),
            Device("little", target=PLAIN, cores=(cores[-1],), overlap=True),
        ),
        links=(Link("big", "little", 1e10, 1e-6), Link("little", "big", 1e10, 1e-6)),
        name="two-cpus",
        shared_cores=len(cores) < 2,
    )


def teams_of_cpus() -> Platform:
    """The same places, and both cores as a third one."""
    big, little = (replace(device, overlap=False) for device in two_cpus().devices)
    both = replace(
        big, name="both", cores=(*big.cores, *little.cores), target={**NATIVE, "num-cores": 2}
    )
    names = [device.name for device in (big, little, both)]
    links = tuple(Link(a, b, 1e10, 1e-6) for a, b in itertools.permutations(names, 2))
    return Platform((big, little, both), links, name="teams")


def equal_cpus() -> Platform:
    """The same places, of one kind."""
    big, little = two_cpus().devices
    return replace(two_cpus(), devices=(big, replace(little, target=NATIVE)))


def branchy(seed: int = 0) -> tvm.IRModule:
    """Convolutions in two branches, a kernel with two outputs, reshapes inside and at the end.

    The inputs are ``in/x`` (1, 4, 8, 8) and ``y`` (1, 8); the outputs ``probabilities`` and
    ``features`` (a view of what another kernel reads too).
    """
    rng = np.random.default_rng(seed)

    def weight(*shape: int) -> Any:
        # Scaled by the number of products in a sum, so that the softmax does not saturate.
        fan_in = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
        return relax.const((rng.standard_normal(shape) / np.sqrt(fan_in)).astype("float32"))

    ops = relax.op
    x = relax.Var("x", relax.TensorType((1, 4, 8, 8), "float32"))
    y = relax.Var("y", relax.TensorType((1, 8), "float32"))
    builder = relax.BlockBuilder()
    attrs = {INPUT_NAMES: ["in/x", "y"], OUTPUT_NAMES: ["probabilities", "features"]}
    with builder.function("main", [x, y], attrs=attrs):
        with builder.dataflow():
            stem = builder.emit(ops.nn.relu(ops.nn.conv2d(x, weight(16, 4, 3, 3), padding=1)))
            left = builder.emit(ops.nn.conv2d(stem, weight(16, 16, 1, 1)))
            pooled = builder.emit(ops.nn.max_pool2d(stem, (3, 3), padding=1))
            right = builder.emit(ops.nn.conv2d(pooled, weight(16, 16, 3, 3), padding=1))
            joined = builder.emit(ops.concat([left, right], axis=1))
            halves = builder.emit(ops.split(joined, 2, axis=1))
            # Pooling keeps TVM from fusing the split into its readers: it stays a kernel.
            left = builder.emit(ops.nn.max_pool2d(halves[0], (3, 3), padding=1))
            right = builder.emit(ops.nn.max_pool2d(halves[1], (3, 3), padding=1))
            mixed = builder.emit(ops.multiply(left, right))
            flat = builder.emit(ops.reshape(mixed, (1, 16 * 64)))
            hidden = builder.emit(ops.matmul(flat, weight(16 * 64, 8)))
            added = builder.emit(ops.add(hidden, y))
            logits = builder.emit(ops.matmul(added, weight(8, 10)))
            result = builder.emit(ops.nn.softmax(logits))
            features = builder.emit(ops.reshape(mixed, (16, 64)))
            out = builder.emit_output(relax.Tuple([result, features]))
        builder.emit_func_output(out)
    return builder.get()


def dense(*sizes: int) -> tvm.IRModule:
    """Dense layers of these widths, one after the other."""
    rng = np.random.default_rng(0)
    x = relax.Var("x", relax.TensorType((1, sizes[0]), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for rows, columns in itertools.pairwise(sizes):
                weight = rng.standard_normal((rows, columns)).astype("float32") / math.sqrt(rows)
                value = builder.emit(relax.op.matmul(value, relax.const(weight)))
                value = builder.emit(relax.op.nn.relu(value))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return builder.get()


def branchy_inputs(seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Random inputs of `branchy`, in order."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s).astype("float32") for s in ((1, 4, 8, 8), (1, 8))]


def lowered(mod: tvm.IRModule, platform: Platform) -> tvm.IRModule:
    """`mod` lowered for a platform's targets."""
    return LowerToTasks([device_target(d) for d in platform.devices])(mod)


def unit_problem(mod: tvm.IRModule, platform: Platform, batch: int = 1) -> Problem:
    """The problem of a lowered module with a cost of a millisecond for everything."""
    graph = extract_tasks(mod).graph
    row = {device: Cost(((1, 1e-3),)) for device in platform.names}
    costs = {task: dict(row) for task in graph.index}
    return Problem(graph, costs, platform, Objective("latency", batch))


def with_sizes(problem: Problem, mod: tvm.IRModule, seed: int) -> Problem:
    """The problem with kernels for several elements at once, for about half of its tasks."""
    rng = random.Random(seed)
    main = read_main(mod)
    costs = {task: dict(row) for task, row in problem.costs.items()}
    for task, call in zip(main.task_ids, main.calls, strict=True):
        for device, cost in costs[task].items():
            sizes = rng.choice([(1,), (1,), (1, 2), (1, 3), (1, 2, 3)])
            with suppress(ValueError):  # a kernel that cannot be had for several
                for size in sizes[1:]:
                    batch_kernel(mod[call.kernel], size, main.shared(call))
                costs[task][device] = replace(cost, sizes=sizes)
    return replace(problem, costs=costs)


def random_schedule(problem: Problem, seed: int) -> Schedule:
    """A valid schedule with random devices and a random topological order.

    Batches are divided at random: elements of a task may run on several devices.
    """
    rng = random.Random(seed)
    elements = [(task, element) for task in problem.graph.index for element in range(problem.batch)]
    waiting = {each: len(problem.graph.predecessors[each[0]]) for each in elements}
    ready = [each for each, count in waiting.items() if count == 0]
    steps = []
    while ready:
        task, element = ready.pop(rng.randrange(len(ready)))
        # Some of the elements that are ready too come along.
        along = [e for t, e in ready if t == task and rng.random() < 0.5]
        ready = [(t, e) for t, e in ready if t != task or e not in along]
        group = tuple(sorted([element, *along]))
        steps.append((task, rng.choice(problem.devices_for(task)), group))
        for reader in problem.graph.successors[task]:
            for done in group:
                waiting[reader, done] -= 1
                if waiting[reader, done] == 0:
                    ready.append((reader, done))
    return as_schedule(problem, steps)


def as_schedule(problem: Problem, steps: list[tuple[str, str, tuple[int, ...]]]) -> Schedule:
    """The schedule that a placement and order give."""
    executions, copies = simulate(problem, steps)
    value = max(execution.end for execution in executions)
    kind = problem.objective.kind
    return Schedule(problem.digest, "test", kind, executions, copies, value, 0.0)


def placed(seed: int, platform: Platform | None = None) -> tvm.IRModule:
    """`branchy`, placed at random."""
    platform = platform or two_cpus()
    mod = lowered(branchy(), platform)
    problem = unit_problem(mod, platform)
    return annotate_devices(mod, problem, random_schedule(problem, seed))
