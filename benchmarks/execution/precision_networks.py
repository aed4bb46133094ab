"""A network in three precisions, made once and kept in a folder, with its errors on fresh inputs.

Making takes minutes (kernels are measured, hundreds of inputs run), running seconds: whoever
measures beside others makes everything first, and has the machine for itself while it runs.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.execution.cases import one_device
from benchmarks.execution.fresh_inputs import fresh_inputs, strange_inputs
from benchmarks.execution.networks import load_network
from benchmarks.provenance import commit_name
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.relative_error import largest_relative_error
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.pipeline.options import CHECKS, PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.problem.precision_promise import AUTO, BFLOAT16, FLOAT32

PRECISIONS = (FLOAT32, BFLOAT16, AUTO)


@dataclass
class PrecisionNetwork:
    """What is known of a network in a folder.

    Attributes
    ----------
    tasks, narrow : how many tasks there are, and how many of them are in bfloat16.
    predicted, rare, exceeding : by ``auto``: the error, that of one input in a thousand, and the
        share of inputs that may exceed the accuracy.
    seconds : that a partition took, kernels already measured, by precision.
    fresh, strange : inputs of the kinds that checks draw, and of others.
    errors, exceeded : the worst on the former ones, and how many were above the accuracy.
    strange_errors, strange_exceeded : that of the latter ones.
    worst : of ``bfloat16`` and ``auto`` on each kind.
    """

    commit: str = ""
    tasks: int = 0
    narrow: dict[str, int] = field(default_factory=dict)
    predicted: float | None = None
    rare: float | None = None
    exceeding: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    fresh: int = 0
    strange: int = 0
    errors: dict[str, float] = field(default_factory=dict)
    exceeded: dict[str, int] = field(default_factory=dict)
    strange_errors: dict[str, float] = field(default_factory=dict)
    strange_exceeded: dict[str, int] = field(default_factory=dict)
    worst: dict[str, dict[str, float]] = field(default_factory=dict)


def make_precision_network(
    name: str, accuracy: float, folder: Path, each: int, checks: int = CHECKS
) -> None:
    """Build a network in three precisions, measure errors, and write all into a folder.

    Parameters
    ----------
    each : fresh inputs of each kind.
    checks : inputs that are held out for the promise of ``auto``.
    """
    module, platform = from_onnx(load_network(name)), one_device(1)
    network = PrecisionNetwork(commit=commit_name())
    executables = {}
    for precision in PRECISIONS:
        limit = accuracy if precision == AUTO else None
        options = PartitionOptions(
            cost_model="profiled-alone", precision=precision, accuracy=limit, checks=checks
        )
        start = time.perf_counter()
        result = partition(module, platform, options)
        network.seconds[precision] = time.perf_counter() - start
        executables[precision] = build(result.placed, single=False)
        network.tasks = len(result.problem.tasks)
        promise = executables[precision].precision
        network.narrow[precision] = 0 if promise is None else len(promise.tasks)
        if precision == AUTO and promise is not None:
            network.predicted = promise.predicted
            network.rare, network.exceeding = promise.rare, promise.exceeding
    distinct = dict(executables)
    if _tasks(executables[AUTO]) == _tasks(executables[BFLOAT16]):
        del distinct[AUTO]  # the same kernels: the same errors
    _measure_errors(network, distinct, accuracy, each)
    folder.mkdir(parents=True, exist_ok=True)
    for precision, executable in executables.items():
        executable.save(folder / f"{precision}.hetero")
    (folder / "network.json").write_text(json.dumps(asdict(network)))  # last: then it is whole


def _tasks(executable: Executable) -> set[str]:
    """Those that are in bfloat16."""
    return set() if executable.precision is None else set(executable.precision.tasks)


def is_made(folder: Path) -> bool:
    """Whether a network was made into a folder."""
    return (folder / "network.json").is_file()


def read_precision_network(folder: Path) -> tuple[PrecisionNetwork, dict[str, Executable]]:
    """What is known of it, and its artifacts by precision."""
    return read_note(folder), {key: load_artifact(folder / f"{key}.hetero") for key in PRECISIONS}


def read_note(folder: Path) -> PrecisionNetwork:
    """What is known of a network."""
    return PrecisionNetwork(**json.loads((folder / "network.json").read_text()))


def _measure_errors(
    network: PrecisionNetwork, executables: Mapping[str, Executable], accuracy: float, each: int
) -> None:
    """Note the errors of bfloat16 and auto on inputs that no one has seen."""
    with ExitStack() as stack:
        executors = {
            key: stack.enter_context(Executor(executable))
            for key, executable in executables.items()
        }
        infos = executors[FLOAT32].inputs
        network.fresh, network.errors, network.exceeded = _worst(
            network, executors, fresh_inputs(infos, each), accuracy
        )
        network.strange, network.strange_errors, network.strange_exceeded = _worst(
            network, executors, strange_inputs(infos, max(1, each // 3)), accuracy
        )


def _worst(
    network: PrecisionNetwork,
    executors: Mapping[str, Executor],
    inputs: Iterator[tuple[str, Mapping[str, Any]]],
    accuracy: float,
) -> tuple[int, dict[str, float], dict[str, int]]:
    """How many inputs there were, the worst errors, and how many were above the accuracy."""
    narrow = [key for key in executors if key != FLOAT32]
    count, errors, exceeded = 0, dict.fromkeys(narrow, 0.0), Counter[str]()
    for kind, values in inputs:
        count += 1
        outputs = {key: _run(executor, values) for key, executor in executors.items()}
        row = network.worst.setdefault(kind, dict.fromkeys(errors, 0.0))
        for key in narrow:
            error = largest_relative_error(outputs[FLOAT32], outputs[key])
            errors[key], row[key] = max(errors[key], error), max(row[key], error)
            exceeded[key] += error > accuracy
    for found in (errors, exceeded, *network.worst.values()):
        found.setdefault(AUTO, found[BFLOAT16])
    return count, errors, dict(exceeded)


def _run(executor: Executor, values: Mapping[str, Any]) -> list[np.ndarray[Any, Any]]:
    return [tensor.numpy() for tensor in executor.run(values)]
