"""Normalizations with residuals and embeddings, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.contributed import Draw, assert_same, number, one_node, rewritten
from tests.frontends.onnx.models import make
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

SHAPES = [(2, 5, 16), (1, 5, 16), (5, 16)]


@pytest.mark.parametrize("skip", SHAPES)
def test_layer_norm_of_a_sum_with_residual_and_bias(skip: tuple[int, ...]) -> None:
    d = Draw()
    operands = [d.normal(2, 5, 16), d.normal(*skip), d.normal(16), d.normal(16), d.normal(16)]
    assert_same(*one_node("SkipLayerNormalization", operands, epsilon=1e-3))


@pytest.mark.parametrize("version", [13, 17, 18])
@pytest.mark.parametrize("skip", SHAPES)
def test_rms_norm_of_a_sum_with_residual_and_bias(skip: tuple[int, ...], version: int) -> None:
    d = Draw()
    operands = [d.normal(2, 5, 16), d.normal(*skip), d.normal(16), d.normal(16)]
    assert_same(*one_node("SkipSimplifiedLayerNormalization", operands, version=version))


@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_the_residual_sum_is_a_result(operator: str) -> None:
    d = Draw()
    operands = [d.normal(2, 5, 16), d.normal(2, 5, 16), d.normal(16)]
    model, feeds = one_node(operator, operands, results=4)
    model.graph.node[0].output[1:3] = ["", ""]
    del model.graph.output[1:3]
    assert_same(model, feeds)


def test_mean_and_deviation_are_refused() -> None:
    d = Draw()
    operands = [d.normal(2, 16), d.normal(2, 16), d.normal(16)]
    model, _ = one_node("SkipLayerNormalization", operands, results=2)
    with pytest.raises(ModelError, match="gives its result 1, which only training reads"):
        rewritten(model)


def test_embeddings_of_words_places_and_segments() -> None:
    d = Draw()
    ids, segments = d.below(7, 2, 5), d.below(2, 2, 5)
    tables = [d.normal(7, 16), d.normal(9, 16), d.normal(2, 16), d.normal(16), d.normal(16)]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    operands = [ids, segments, *tables, mask]
    assert_same(*one_node("EmbedLayerNormalization", operands, results=3, epsilon=1e-4))
    places = d.below(9, 2, 5)
    operands = [ids, segments, *tables, None, places]
    assert_same(*one_node("EmbedLayerNormalization", operands, results=2))
    bare = [ids, None, tables[0], tables[1], None, tables[3], tables[4]]
    assert_same(*one_node("EmbedLayerNormalization", bare, results=2))


def test_embeddings_from_tables_of_codes() -> None:
    d = Draw()
    sizes = [(7, 16), (9, 16), (2, 16), (16,), (16,)]
    tables = [d.codes(np.uint8, *size) for size in sizes]
    scales = [number(0.01 * (i + 1)) for i in range(5)]
    zeros = [number(120 + i, np.uint8) for i in range(5)]
    operands = [d.below(7, 2, 5), d.below(2, 2, 5), *tables, None, *scales, *zeros]
    constants = tuple(range(2, 18))
    assert_same(
        *one_node("QEmbedLayerNormalization", operands, results=2, constants=constants), atol=1e-4
    )


def test_operators_that_onnx_runtime_writes_as_standard_ones_are_its_own() -> None:
    """Layer norms of opset 14 and SimplifiedLayerNormalization: in the default domain."""
    d = Draw()
    nodes = [
        helper.make_node("LayerNormalization", ["x", "w", "b"], ["h"], axis=-1),
        helper.make_node("SimplifiedLayerNormalization", ["h", "w"], ["y"], axis=-1),
    ]
    model: onnx.ModelProto = make(
        nodes, {"x": [2, 16]}, ["y"], {"w": d.normal(16), "b": d.normal(16)}, opset=14
    )
    module = from_onnx(model)
    assert [int(dim) for dim in module["main"].ret_ty.shape.values] == [2, 16]
