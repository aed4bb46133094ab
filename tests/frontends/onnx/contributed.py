"""One node of ONNX Runtime's own, before and after rewriting, both run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.frontends.onnx.models import run
from tvm_hetero.frontends.onnx import microsoft, quantized  # noqa: F401  (register rewriters)
from tvm_hetero.frontends.onnx.conversion import converters  # noqa: F401  (register them)
from tvm_hetero.frontends.onnx.conversion.registry import converted_operators
from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph

Feeds = Mapping[str, np.ndarray]


class Draw:
    """Operands at random: the same ones in each run of a test."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)

    def normal(self, *shape: int) -> np.ndarray:
        """Normal float32 numbers."""
        return self.generator.standard_normal(shape, dtype=np.float32)

    def codes(self, dtype: Any, *shape: int) -> np.ndarray:
        """Whole numbers over the whole range of a type."""
        limits = np.iinfo(dtype)
        return self.generator.integers(limits.min, limits.max + 1, shape).astype(dtype)

    def below(self, end: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
        """Whole numbers from 0 on."""
        return self.generator.integers(0, end, shape).astype(dtype)

    def scales(self, *shape: int) -> np.ndarray:
        """Small positive float32 numbers."""
        return self.generator.uniform(0.01, 0.1, shape).astype(np.float32)


def number(value: float, dtype: Any = np.float32) -> np.ndarray:
    """A tensor without dimensions."""
    return np.array(value, dtype)


def one_node(
    operator: str,
    operands: Sequence[np.ndarray | None],
    results: int = 1,
    constants: Sequence[int] = (),
    domain: str = "com.microsoft",
    version: int = 17,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node on these operands, and its feeds: the operands that are no constants."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(operands)]
    made = [f"y{i}" for i in range(results)]
    node = helper.make_node(operator, names, made, domain=domain, **attributes)
    given = {
        n: (i, x) for i, (n, x) in enumerate(zip(names, operands, strict=True)) if x is not None
    }
    feeds = {n: x for n, (i, x) in given.items() if i not in constants}
    graph = helper.make_graph(
        [node],
        "one_node",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in feeds.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in made],
        [numpy_helper.from_array(x, n) for n, (i, x) in given.items() if i in constants],
    )
    sets = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10), feeds


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model after the walk: standard operators alone."""
    graph = OnnxGraph(model)
    expand_graph(graph, converted_operators())
    assert {node.domain for node in graph.nodes} <= {""}
    return graph.to_model()


def assert_same(
    model: onnx.ModelProto, feeds: Feeds, rtol: float = 1e-5, atol: float = 1e-5
) -> onnx.ModelProto:
    """Demand that the rewritten model gives what the model gives; returns it."""
    standard = rewritten(model)
    theirs, ours = run(model, feeds), run(standard, feeds)
    for wanted, got in zip(theirs, ours, strict=True):
        assert got.dtype == wanted.dtype
        assert got.shape == wanted.shape
        np.testing.assert_allclose(
            got.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol
        )
    return standard
