"""One server for all tests of the protocol's messages, and a model of all types of elements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

import tvm_hetero
from tests.models import equal_cpus, lowered, random_schedule, unit_problem
from tests.serve.server_process import ServerProcess
from tvm_hetero.passes.attributes import INPUT_NAMES, OUTPUT_NAMES

KINDS = {
    "BOOL": "bool",
    "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip


def kinds() -> tvm.IRModule:
    """A model with an input and an output of each type, by the protocol's names (in lower case):
    the output ``out_int8`` is the larger of ``int8`` and itself, so that all bits stay."""
    names = [name.lower() for name in KINDS]
    inputs = [relax.Var(name, relax.TensorType((1, 3), KINDS[name.upper()])) for name in names]
    builder = relax.BlockBuilder()
    attrs = {INPUT_NAMES: names, OUTPUT_NAMES: [f"out_{name}" for name in names]}
    with builder.function("main", inputs, attrs=attrs):
        with builder.dataflow():
            outputs = [
                builder.emit(_kept(value, dtype))
                for value, dtype in zip(inputs, KINDS.values(), strict=True)
            ]
            out = builder.emit_output(relax.Tuple(outputs))
        builder.emit_func_output(out)
    return builder.get()


def _kept(value: relax.Var, dtype: str) -> Any:
    if dtype == "bool":
        return relax.op.logical_or(value, value)
    return relax.op.maximum(value, value)


@pytest.fixture(scope="session")
def kinds_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact of `kinds`."""
    from tvm_hetero.compiler.build import build
    from tvm_hetero.passes.annotate_devices import annotate_devices

    path = tmp_path_factory.mktemp("kinds") / "kinds.hetero"
    mod = lowered(kinds(), equal_cpus())
    problem = unit_problem(mod, equal_cpus())
    build(annotate_devices(mod, problem, random_schedule(problem, 1))).save(path)
    return path


@pytest.fixture(scope="package")
def server(served_models: Path, kinds_model: Path) -> Iterator[ServerProcess]:
    """Serves ``branchy``, ``dense`` and ``kinds``; models can be loaded and unloaded."""
    names = [str(served_models / f"{name}.hetero") for name in ("branchy", "dense")]
    with ServerProcess([*names, str(kinds_model), "--admin"]) as process:
        yield process


@pytest.fixture(scope="package")
def branchy_executor(served_models: Path) -> Iterator[tvm_hetero.Executor]:
    """What is served as ``branchy``, here."""
    with tvm_hetero.load(served_models / "branchy.hetero") as executor:
        yield executor


@pytest.fixture(scope="package")
def dense_executor(served_models: Path) -> Iterator[tvm_hetero.Executor]:
    """What is served as ``dense``, here."""
    with tvm_hetero.load(served_models / "dense.hetero") as executor:
        yield executor
