"""ONNX models through our importer, kernels and executor, beside what judges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.frontends.onnx.models import run
from tests.models import as_schedule, lowered, two_cpus, unit_problem
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.passes.annotate_devices import annotate_devices

Array = np.ndarray[Any, Any]


def typed_model(
    nodes: Sequence[NodeProto],
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array] | None = None,
    opset: int = 18,
    outputs: Sequence[str] | None = None,
) -> onnx.ModelProto:
    """A model whose inputs are like `feeds`; its outputs are what no node reads, if not given."""
    read = {name for node in nodes for name in node.input}
    ends = [name for node in nodes for name in node.output if name and name not in read]
    graph = helper.make_graph(
        list(nodes),
        "test",
        [_value(name, array) for name, array in feeds.items()],
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs or ends],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    others = sorted({node.domain for node in nodes} - {""})
    sets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in others)]
    made = helper.make_model(graph, opset_imports=sets, ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(made, data_prop=True)
    for output, known in zip(made.graph.output, inferred.graph.output, strict=True):
        output.type.CopyFrom(known.type)
    return made


def _value(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def place(source: onnx.ModelProto, batch: int = 1) -> tvm.IRModule:
    """A model on one CPU."""
    platform = two_cpus()
    platform = replace(platform, devices=platform.devices[:1], links=())
    mod = lowered(from_onnx(source), platform)
    problem = unit_problem(mod, platform, batch)
    elements = tuple(range(batch))
    tasks: list[tuple[str, str, tuple[int, ...]]]
    tasks = [
        (task, platform.names[0], elements[e : e + 1])
        for task in problem.graph.index
        for e in elements
    ]
    return annotate_devices(mod, problem, as_schedule(problem, tasks))


def executor(source: onnx.ModelProto, batch: int = 1) -> Executor:
    """An executor of a model on one CPU."""
    return Executor(build(place(source, batch)))


def compute(source: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs by our kernels."""
    with executor(source) as ex:
        return [np.array(each.numpy()) for each in ex.run(dict(feeds))]


def evaluate(source: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs by onnx's own reference, which knows what ONNX Runtime does not."""
    return [np.asarray(each) for each in ReferenceEvaluator(source).run(None, dict(feeds))]


def assert_same(
    source: onnx.ModelProto,
    feeds: Mapping[str, Array],
    wanted: Sequence[Array] | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Our outputs are those of ONNX Runtime, or the ones given: type, shape and values."""
    expected = run(source, feeds) if wanted is None else wanted
    for output, got, want in zip(
        source.graph.output, compute(source, feeds), expected, strict=True
    ):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), output.name
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol, atol, err_msg=output.name)
        else:
            np.testing.assert_array_equal(got, want, err_msg=output.name)
