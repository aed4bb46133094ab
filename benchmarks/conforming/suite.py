"""The official ONNX backend suite of the installed onnx package, as values.

Five kinds: node tests (made in memory; most of one node, and their ``_expanded`` forms, in which
onnx's own function body stands for the node), and those on disk: simple, pytorch-converted,
pytorch-operator, and nine light models of real networks (which onnx's runner feeds with a ramp).
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.conforming.parameters import parameters_of

KINDS = ("node", "node expanded", "simple", "pytorch-converted", "pytorch-operator", "real")
# An array; a list of arrays is a sequence, None an optional that holds nothing.
Value = Any


@dataclass(frozen=True)
class SuiteTest:
    """One test: a model, what goes in and must come out (once or several times), and how near.

    ``operator`` is what a node test is about (of an expanded one too), empty for the others;
    ``parameters`` are the inputs that exporters write as constants (`conforming.parameters`).
    """

    name: str
    kind: str
    operator: str
    model: bytes
    data: list[tuple[list[Value], list[Value]]]
    rtol: float
    atol: float
    parameters: tuple[str, ...] = ()

    @staticmethod
    def inputs_of(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
        """Return what is handed over: old models list their weights among the inputs."""
        held = {tensor.name for tensor in graph.initializer}
        return [value for value in graph.input if value.name not in held]


def suite_tests(names: Iterable[str] | None = None) -> list[SuiteTest]:
    """Return all tests, or those of these names, in a fixed order."""
    wanted = None if names is None else set(names)
    nodes = _node_cases()
    plain = {case.name: case.model for case in nodes}
    found = []
    for case in nodes:
        if wanted is None or case.name in wanted:
            # An expanded test has the inputs of the plain one, whose node says what they are.
            about = plain.get(case.name.partition("_expanded")[0], case.model)
            test = _node_test(case, about.graph.node[-1].op_type)
            found.append((test, parameters_of(about.graph)))
    for kind in KINDS[2:]:
        for case in sorted(_load(kind), key=lambda case: str(case.name)):
            if wanted is None or case.name in wanted:
                model = onnx.load(_model_path(case))
                found.append((_disk_test(case, kind, model), parameters_of(model.graph)))
    return [_with_parameters(test, parameters) for test, parameters in found]


def sample_of(tests: Sequence[SuiteTest]) -> list[SuiteTest]:
    """Return one test of every operator: arbitrary, but the same ones whatever else there is."""
    chosen: dict[str, SuiteTest] = {}
    for test in sorted(tests, key=lambda test: zlib.crc32(test.name.encode())):
        if test.kind == "node":
            chosen.setdefault(test.operator, test)
    return sorted(chosen.values(), key=lambda test: test.name)


def _node_cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _load("node")


def _load(kind: str) -> list[Any]:
    from onnx.backend.test.loader import load_model_tests

    return list(load_model_tests(kind=kind))


def _node_test(case: Any, operator: str) -> SuiteTest:
    kind = "node expanded" if "_expanded" in case.name else "node"
    data = [([_value(a) for a in i], [_value(a) for a in o]) for i, o in case.data_sets]
    model = case.model.SerializeToString()
    return SuiteTest(case.name, kind, operator, model, data, case.rtol, case.atol)


def _disk_test(case: Any, kind: str, model: onnx.ModelProto) -> SuiteTest:
    if kind == "real":
        data = [_ramp_data(_model_path(case), model)]
    else:
        folders = sorted(Path(case.model_dir).glob("test_data_set*"))
        data = [_stored_data(folder, model.graph) for folder in folders]
    return SuiteTest(case.name, kind, "", model.SerializeToString(), data, case.rtol, case.atol)


def _with_parameters(test: SuiteTest, names: Iterable[str]) -> SuiteTest:
    inputs = {value.name for value in onnx.load_from_string(test.model).graph.input}
    return replace(test, parameters=tuple(name for name in names if name in inputs))


def _model_path(case: Any) -> Path:
    """Where a test's model is; the light ones come with the package, whatever their URL says."""
    if case.model_dir is not None:
        return Path(case.model_dir) / "model.onnx"
    return Path(str(onnx.__file__)).parent.parent / str(case.url)


def _ramp_data(path: Path, model: onnx.ModelProto) -> tuple[list[Value], list[Value]]:
    """Return what onnx's runner feeds a light model with, and what the package says comes out."""
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name not in held:
            shape = tuple(dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim)
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    results = [
        numpy_helper.to_array(onnx.load_tensor(f"{path.with_suffix('')}_output_{i}.pb"))
        for i in range(len(model.graph.output))
    ]
    return inputs, results


def _stored_data(folder: Path, graph: onnx.GraphProto) -> tuple[list[Value], list[Value]]:
    return _stored(folder, "input", graph.input), _stored(folder, "output", graph.output)


def _stored(folder: Path, what: str, declared: Any) -> list[Value]:
    count = len(list(folder.glob(f"{what}_*.pb")))
    return [_read(folder / f"{what}_{i}.pb", declared[i].type) for i in range(count)]


def _read(path: Path, kind: onnx.TypeProto) -> Value:
    if kind.HasField("sequence_type"):
        return list(numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes())))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(path.read_bytes()))
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def _value(given: Any) -> Value:
    """Return a value of a node test as an array, a list of them, or None."""
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, list | tuple):
        return [_value(each) for each in given]
    return None if given is None else np.asarray(given)
