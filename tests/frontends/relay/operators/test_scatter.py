"""Scatters: what they refuse, and which places they move; `relay_scatters` has what they give."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.relay.cases import Case, check, normal, program, run, whole
from tests.frontends.relay.json_reader.test_graph_file import Saved
from tests.frontends.relay.models import unlike_cpus
from tests.frontends.relay.scatters import scatter_elements, scatter_nd
from tvm_hetero import relay
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import ModelError
from tvm_hetero.executor.executor import Executor

X, ROWS, UPDATES = normal(4, 3), whole(2, 3, high=4), normal(2, 3, seed=1)
AT = np.array([[0, 3]], "int32")
FAR = np.array([[0, 4]], "int32")

REFUSED = {
    "a reduction that is none": (
        'scatter_elements(%x, %y, %z, reduction="or")', [X, ROWS, UPDATES],
        "reduction='or' is not supported, only 'update', 'add', 'mul', 'mean', 'min', 'max'"),
    "a mean by coordinates": (
        'scatter_nd(%x, %y, %z, mode="mean")', [X, AT, UPDATES], "mode='mean' is not supported"),
    "an unknown attribute": (
        "scatter_elements(%x, %y, %z, unique=True)", [X, ROWS, UPDATES], "'unique' = True is not"),
    "an axis too far": (
        "scatter_elements(%x, %y, %z, axis=-3)", [X, ROWS, UPDATES], "axis -3 of 2 dimensions"),
    "an argument too few": ("scatter_nd(%x, %y)", [X, AT], "2 arguments, expected 3"),
    "places that are no numbers": (
        "scatter_elements(%x, %y, %z)", [X, ROWS.astype("float32"), UPDATES],
        "places of float32, expected integers"),
    "updates of another type": (
        "scatter_elements(%x, %y, %z)", [X, ROWS, UPDATES.astype("float64")],
        "updates of float64 in data of float32"),
    "a mean of whole numbers": (
        'scatter_elements(%x, %y, %z, reduction="mean")', [ROWS, ROWS, ROWS],
        "'mean' of int32 is not supported"),
    "a sum of truth values": (
        'scatter_elements(%x, %y, %z, reduction="add")', [X > 0, ROWS, UPDATES > 0],
        "'add' of truth values"),
    "updates of another shape": (
        "scatter_elements(%x, %y, %z)", [X, ROWS, UPDATES[:1]], r"updates \[1, 3\] for places"),
    "places wider than the data": (
        "scatter_elements(%x, %y, %z, axis=1)", [X[:1], ROWS, UPDATES],
        r"places \[2, 3\] in data \[1, 3\] along axis 1"),
    "places of another rank": (
        "scatter_elements(%x, %y, %z)", [X, ROWS[0], UPDATES[0]], r"places \[3\] in data"),
    "more coordinates than dimensions": (
        "scatter_nd(%x, %y, %z)", [X, ROWS.T, UPDATES], "data of 2 dimensions"),
    "blocks of another shape": (
        "scatter_nd(%x, %y, %z)", [X, AT, UPDATES[:, :2]], r"expected \[2, 3\]"),
    "a place outside of the data": (
        "scatter_elements(%x, %y, %z)", [X, ROWS - 5, UPDATES], r"place -5 is outside of the data"),
    "a coordinate outside of the data": (
        "scatter_nd(%x, %y, %z)", [X, FAR, UPDATES], r"place 4 is outside of the data \[4, 3\]"),
    "a coordinate from the end": (
        "scatter_nd(%x, %y, %z)", [X, AT - 1, UPDATES], "place -1 is outside"),
    "data of nothing": (
        "scatter_elements(%x, %y, %z)", [X[:0], ROWS, UPDATES], "which has no values"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    body, inputs, message = REFUSED[case]
    text, _, constants = program([Case(body, inputs, X, [1])])
    with pytest.raises(ModelError, match=message):
        relay.frontend.from_text(text, constants)


def test_computed_places_outside_of_the_data_are_moved_into_it() -> None:
    """Their kernels would write there."""
    far = np.array([[-9, 4, 2**31 - 1], [-(2**31), -4, 3]], "int32")
    pair = np.array([[-7, 1, 2**31 - 1], [2, -1, 99]], "int32")
    inside, row = far.clip(-4, 3), normal(3, seed=2)
    check([
        Case("scatter_elements(%x, %y, %z)", [X, far, UPDATES],
             scatter_elements(X, inside, UPDATES, 0)),
        Case("scatter_elements(%x, %y, %z)", [X, far[:, :2], UPDATES[:, :2]],
             scatter_elements(X, inside[:, :2], UPDATES[:, :2], 0)),
        Case('scatter_nd(%x, %y, %z, mode="add")', [X, pair, row],
             scatter_nd(X, pair.clip(0, [[3], [2]]), row, "add")),
    ])  # fmt: skip


def test_attributes_of_a_saved_graph() -> None:
    """A number and a text that are nodes of their own, and a text that is a plain field."""
    for text_as_node in (True, False):
        g = Saved()
        x = g.var("x", g.type(4, 3))
        places, updates = g.constant(ROWS.T.copy() % 3), g.constant(UPDATES.T.copy())
        reduction = g.add("runtime.String", text="max") if text_as_node else "max"
        axis = g.add("IntImm", dtype="int32", value=-1)
        attrs = g.add("relay.attrs.ScatterElementsAttrs", axis=axis, reduction=reduction)
        call = g.call("scatter_elements", [x, places, updates], attrs, g.type(4, 3))
        (found,) = run(relay.frontend.from_json(g.text(g.function([x], call))), {"x": X})
        expected = scatter_elements(X, ROWS.T % 3, UPDATES.T, -1, "max")
        np.testing.assert_array_equal(found, expected)


def test_a_partition_on_two_unlike_devices() -> None:
    text, inputs, _ = program([
        Case('scatter_elements(exp(%x), %y, %z, reduction="add")', [X, ROWS, UPDATES],
             scatter_elements(np.exp(X), ROWS, UPDATES, 0, "add")),
        Case("exp(scatter_nd(%x, %y, %z))", [X, AT, UPDATES],
             np.exp(scatter_nd(X, AT, UPDATES))),
    ])  # fmt: skip
    together = relay.transform.HeteroPartition(
        platform=unlike_cpus(), cost_model="analytical", solver="heft"
    )
    module = together(relay.frontend.from_text(text))
    with Executor(build(module), "partition") as executor:
        first, second = executor.run(inputs)
    expected = scatter_elements(np.exp(X), ROWS, UPDATES, 0, "add")
    np.testing.assert_allclose(first.numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), np.exp(scatter_nd(X, AT, UPDATES)), rtol=1e-5)
