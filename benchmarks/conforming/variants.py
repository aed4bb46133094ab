"""A test as networks have its operator: parameters are constants, and kernels stand behind it.

The suite hands everything over at run time: the shape of a Reshape, a convolution's weights.
Exporters write those as initializers, and no network consists of a Reshape alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.conforming.suite import SuiteTest, Value


def with_constants(test: SuiteTest, names: Iterable[str]) -> SuiteTest:
    """Return the test with these inputs, those that are tensors, as initializers."""
    model = onnx.load_from_string(test.model)
    inputs, results = test.data[0]
    fixed = {
        value.name: data
        for value, data in zip(test.inputs_of(model.graph), inputs, strict=False)
        if value.name in set(names) and isinstance(data, np.ndarray)
    }
    if not fixed or len(test.data) > 1:
        return test
    kept = [
        (value, array)
        for value, array in zip(test.inputs_of(model.graph), inputs, strict=False)
        if value.name not in fixed
    ]
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in fixed.items())
    del model.graph.input[:]
    model.graph.input.extend(value for value, _ in kept)
    data = [([array for _, array in kept], results)]
    return replace(test, model=model.SerializeToString(), data=data, parameters=())


def with_kernels_behind(test: SuiteTest) -> SuiteTest | None:
    """Return the test with ``output - zeros`` for every output, or None where there is no such.

    The zeros are inputs, so that nothing is known ahead; of truth values it is ``xor``.
    """
    model = onnx.load_from_string(test.model)
    if any(domain.domain not in ("", "ai.onnx") for domain in model.opset_import):
        return None
    inputs, results = test.data[0]
    if len(test.data) > 1 or not all(_is_computable(result) for result in results):
        return None
    graph, zeros = model.graph, []
    given = test.inputs_of(graph)[: len(inputs)]
    for output, result in zip(graph.output, results, strict=True):
        name = output.name
        kind = helper.np_dtype_to_tensor_dtype(result.dtype)
        zero = helper.make_tensor_value_info(f"{name}.zeros", kind, result.shape)
        operator = "Xor" if result.dtype == np.bool_ else "Sub"
        graph.node.append(helper.make_node(operator, [name, zero.name], [f"{name}.behind"]))
        output.name = f"{name}.behind"
        given.append(zero)
        zeros.append(np.zeros(result.shape, result.dtype))
    del graph.input[:]
    graph.input.extend(given)
    return replace(test, model=model.SerializeToString(), data=[([*inputs, *zeros], results)])


def _is_computable(result: Value) -> bool:
    return isinstance(result, np.ndarray) and result.dtype.kind in "fiub" and result.size > 0
