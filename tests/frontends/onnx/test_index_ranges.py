"""Inputs that are made up keep within the tables that they are indices of, or are plain numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.running import executor as start
from tests.frontends.onnx.running import typed_model
from tvm_hetero.errors import RunError
from tvm_hetero.frontends.onnx.index_ranges import index_ranges
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph

TOKENS = {"ids": np.zeros((1, 4), np.int64), "types": np.zeros((1, 4), np.int64)}


def embeddings() -> onnx.ModelProto:
    """A BERT's: words, and of two types the rows that a cast and a squeeze away are looked up."""
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["w"]),
        helper.make_node("Cast", ["types"], ["narrow"], to=onnx.TensorProto.INT32),
        helper.make_node("Squeeze", ["narrow", "zero"], ["row"]),
        helper.make_node("Gather", ["kinds", "row"], ["k"], axis=1),
        helper.make_node("Transpose", ["k"], ["kt"]),
        helper.make_node("Add", ["w", "kt"], ["y"]),
    ]
    tables = {
        "words": np.ones((50, 3), np.float32),
        "kinds": np.ones((3, 2), np.float32),
        "zero": np.array([0], np.int64),
    }
    return typed_model(nodes, TOKENS, tables)


def computed(rows: int) -> onnx.ModelProto:
    """Positions that are counted from a mask, as RoBERTa's are: of ones at most four."""
    nodes = [
        helper.make_node("CumSum", ["ids", "one"], ["places"]),
        helper.make_node("Gather", ["words", "places"], ["y"]),
    ]
    tables = {"words": np.ones((rows, 3), np.float32), "one": np.array(1, np.int64)}
    return typed_model(nodes, {"ids": TOKENS["ids"]}, tables)


def test_ranges_are_those_of_the_shortest_table():
    assert index_ranges(OnnxGraph(embeddings())) == {"ids": (0, 49), "types": (0, 1)}
    twice = embeddings()
    twice.graph.node.append(helper.make_node("Gather", ["kinds", "ids"], ["z"], axis=0))
    assert index_ranges(OnnxGraph(twice))["ids"] == (0, 2)


def test_a_table_that_is_computed_and_an_index_that_is_have_no_range():
    assert index_ranges(OnnxGraph(computed(9))) == {}


def test_made_up_indices_stay_within_their_tables():
    with start(embeddings()) as executor:
        ranges = {each.name: each.range for each in executor.inputs}
        assert ranges == {"ids": (0, 49), "types": (0, 1)}
        executor.run(executor.random_inputs())


def test_where_random_integers_lead_out_of_a_table_they_are_ones():
    with start(computed(5)) as executor:
        with pytest.raises(RunError, match="out of bounds"):
            executor.run(executor.random_inputs())
        inputs = executor.inputs_that_run()
        assert (inputs["ids"] == 1).all()
        executor.run(inputs)


def test_random_integers_that_run_are_kept():
    with start(computed(64)) as executor:
        assert (executor.inputs_that_run(3)["ids"] == executor.random_inputs(3)["ids"]).all()


def test_a_model_that_refuses_them_all_says_why():
    with start(computed(0)) as executor:
        with pytest.raises(RunError, match="out of bounds"):
            executor.inputs_that_run()
