"""LSTM, GRU and RNN as ONNX has them, beside ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.kernels.helpers import AVX2, kernels, runs_here
from tests.kernels.recurrent.nodes import Node, check, expected, run
from tests.models import as_schedule, lowered, two_cpus, unit_problem
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.kernels.recurrent.recurrence import FUNCTIONS, GRU, LSTM, RNN
from tvm_hetero.passes.annotate_devices import annotate_devices

BOTH = {"direction": "bidirectional"}


@pytest.mark.parametrize(
    "node",
    [
        Node(LSTM, batch=1),
        Node(LSTM, batch=3, hidden=18, given="bhcp", lengths=[4, 0, 2], attributes=BOTH),
        Node(LSTM, given="hp", attributes={"direction": "reverse", "clip": 0.3}),
        Node(LSTM, given="bcp", attributes={"input_forget": 1, "clip": 0.4}),
        Node(GRU, batch=1),
        Node(GRU, batch=3, hidden=18, given="bh", lengths=[4, 0, 2], attributes=BOTH),
        Node(GRU, given="", attributes={"linear_before_reset": 1}),
        Node(GRU, batch=3, given="bh", lengths=[1, 4, 3],
             attributes={"linear_before_reset": 1, "clip": 0.3, **BOTH}),
        Node(RNN, batch=1),
        Node(RNN, batch=3, hidden=18, given="bh", lengths=[4, 0, 2], attributes=BOTH),
        Node(RNN, given="", attributes={"direction": "reverse", "clip": 0.3}),
    ],
    ids=lambda node: f"{node.cell}-{node.given}-{'-'.join(node.attributes)}",
)  # fmt: skip
def test_the_results_are_those_of_onnx_runtime(node: Node) -> None:
    check(node)


ACTIVATIONS = [
    ("Sigmoid", "Tanh", "Relu"),
    ("HardSigmoid", "Softsign", "Softplus"),
    ("Elu", "LeakyRelu", "tanh"),
]
VALUED = ("Affine", "ScaledTanh", "ThresholdedRelu")


@pytest.mark.parametrize("names", ACTIVATIONS, ids="-".join)
def test_all_activations_with_their_defaults(names: tuple[str, ...]) -> None:
    check(Node(LSTM, attributes={"activations": list(names)}))


def test_values_go_in_turn_to_the_functions_that_take_one() -> None:
    attributes = {
        "activations": [*VALUED, "HardSigmoid", "Tanh", "LeakyRelu"],
        "activation_alpha": [0.5, 0.7, 0.1, 0.3, 0.2],
        "activation_beta": [0.2, 0.9, 0.4],
    }
    check(Node(LSTM, attributes={**attributes, **BOTH}))


@st.composite
def nodes(draw: Any) -> Node:
    """Nodes of few steps and units, with any of the options."""
    cell = draw(st.sampled_from([LSTM, GRU, RNN]))
    steps, batch = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    lengths = st.lists(st.integers(0, steps), min_size=batch, max_size=batch)
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    plain = ["Sigmoid", "Tanh", "HardSigmoid", "Softsign"]  # others may grow from step to step
    count = FUNCTIONS[cell] * (2 if direction == "bidirectional" else 1)
    attributes = {
        "direction": direction,
        "activations": draw(st.lists(st.sampled_from(plain), min_size=count, max_size=count)),
        **draw(st.sampled_from([{}, {"clip": 0.5}])),
    }
    if cell == LSTM:
        attributes["input_forget"] = draw(st.integers(0, 1))
    if cell == GRU:
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    options = "bhcp" if cell == LSTM else "bh"
    chosen = "".join(letter for letter in options if draw(st.booleans()))
    sizes = steps, batch, draw(st.integers(1, 9)), draw(st.integers(1, 40))
    return Node(cell, *sizes, chosen, draw(st.none() | lengths), attributes)


@settings(max_examples=draws(10), deadline=None)
@given(nodes())
def test_any_options_together(node: Node) -> None:
    check(node)


@pytest.mark.parametrize("cell", [LSTM, GRU, RNN])
def test_weights_that_are_no_constants(cell: str) -> None:
    given = "bhcp" if cell == LSTM else "bh"
    check(Node(cell, given=given, attributes=BOTH), constant=())


def test_a_gru_that_resets_after_its_product_with_weights_that_are_no_constants() -> None:
    check(Node(GRU, hidden=17, attributes={"linear_before_reset": 1}), constant=())


def test_layout_1_is_layout_0_with_the_batch_first() -> None:
    node = Node(LSTM, given="bhc", lengths=[3, 2], attributes=BOTH)
    operands = node.operands()
    swapped = {
        name: np.ascontiguousarray(a.swapaxes(0, 1))
        if name in ("x", "initial_h", "initial_c")
        else a
        for name, a in operands.items()
    }
    batched = replace(node, attributes={**BOTH, "layout": 1})
    y, y_h, y_c = run(batched.module(swapped), swapped)
    theirs = expected(node, operands)
    for ours, right, axes in ((y, theirs[0], (2, 0, 1, 3)), (y_h, theirs[1], (1, 0, 2)),
                              (y_c, theirs[2], (1, 0, 2))):  # fmt: skip
        np.testing.assert_allclose(ours, right.transpose(axes), rtol=1e-5, atol=1e-6)


def test_lengths_of_64_bits_and_vectors_of_256() -> None:
    if not runs_here(AVX2):
        pytest.skip("needs AVX2")
    node = Node(LSTM, batch=3, hidden=20, lengths=[2, 4, 1])
    operands = node.operands()
    longer = {**operands, "sequence_lens": operands["sequence_lens"].astype(np.int64)}
    for ours, theirs in zip(
        run(node.module(longer), longer, AVX2), expected(node, operands), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-6), ("float16", 2e-3)])
def test_other_types_of_numbers(dtype: str, tolerance: float) -> None:
    node = Node(GRU, given="bh", dtype=dtype)
    operands = node.operands()
    found = run(node.module(operands), operands)
    narrow = {name: a.astype(np.float32) for name, a in operands.items()}
    for ours, theirs in zip(found, expected(node, narrow), strict=True):
        assert str(ours.dtype) == dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_directions_are_tasks_of_two_devices() -> None:
    node, platform = Node(LSTM, hidden=20, given="bhc", attributes=BOTH), two_cpus()
    operands = node.operands()
    mod = lowered(node.module(operands), platform)
    assert {"lstm_forward", "lstm_reverse"} <= set(kernels(mod))
    problem = unit_problem(mod, platform)
    tasks = [(task, platform.names[n % 2], (0,)) for n, task in enumerate(problem.graph.index)]
    placed = annotate_devices(mod, problem, as_schedule(problem, tasks))
    with Executor(build(placed)) as ex:
        names = [param.name for param in mod["main"].params]
        results = ex.run({f"input{i}": operands[name] for i, name in enumerate(names)})
        found = [np.array(result.numpy()) for result in results]
    for ours, theirs in zip(found, expected(node, operands), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_no_direction_waits_for_the_other() -> None:
    node = Node(GRU, attributes=BOTH)
    graph = unit_problem(lowered(node.module(node.operands()), two_cpus()), two_cpus()).graph
    forward, reverse = (
        next(t for t in graph.index if name in t) for name in ("_forward", "_reverse")
    )
    reached = {forward, reverse}
    while more := {e.dst for e in graph.edges if e.src in reached} - reached:
        reached |= more
        assert not {forward, reverse} & more
    assert len(reached) > 2
