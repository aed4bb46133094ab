"""Errors on fresh inputs: what they are drawn from, and what lines and the table say of a row."""

from __future__ import annotations

import numpy as np

from benchmarks.execution.fresh_inputs import fresh_inputs, strange_inputs
from benchmarks.execution.precision_networks import PrecisionNetwork
from benchmarks.precision_errors import ErrorRow, _line, summary
from benchmarks.quoted.precision_errors import precision_errors_table
from tvm_hetero.executor.inputs import TensorInfo
from tvm_hetero.pipeline.precision.input_kinds import KINDS

PICTURE = TensorInfo("x", (1, 3, 32, 48), "float32", None)
TOKENS = TensorInfo("ids", (1, 16), "int64", (0, 99))


def test_a_row_says_how_often_and_how_far() -> None:
    network = PrecisionNetwork(
        commit="c", tasks=87, narrow={"float32": 0, "bfloat16": 33, "auto": 1}, rare=5e-3,
        exceeding=0.0168, fresh=210, strange=33, errors={"bfloat16": 1.0, "auto": 4.7e-3},
        exceeded={"bfloat16": 198, "auto": 0}, strange_errors={"bfloat16": 0.9, "auto": 9.4e-3},
        strange_exceeded={"bfloat16": 33, "auto": 2},
    )  # fmt: skip
    row = ErrorRow("a", network, {"float32": 13.4e-3, "bfloat16": 7.9e-3, "auto": 13.3e-3})
    assert summary([row, row]) == "above the accuracy: bfloat16 on 396, auto on 0 of 420 inputs"
    assert "198" in _line(row) and "4.7e-03" in _line(row)
    table = precision_errors_table([row.to_dict()])
    cells = "33, 1 | 198 of 210 | 0 of 210 | 1.0e+00 | 4.7e-03 | 33, 2 of 33"
    assert f"| a | {cells} |" in table


def test_fresh_inputs_are_of_every_kind_and_strange_ones_of_none() -> None:
    drawn = list(fresh_inputs([PICTURE, TOKENS], 2))
    assert [kind for kind, _ in drawn] == [kind for kind in KINDS for _ in range(2)]
    assert len({values["x"].tobytes() for _, values in drawn}) == len(drawn)
    strange = list(strange_inputs([PICTURE, TOKENS], 3))
    kinds = {kind for kind, _ in strange}
    assert len(strange) == 9 and kinds.isdisjoint(KINDS)
    for kind, values in strange:
        assert values["x"].shape == PICTURE.shape and np.ptp(values["x"]) > 0, kind
        assert values["ids"].min() >= 0 and values["ids"].max() <= 99
    assert not list(strange_inputs([TOKENS], 3))  # nothing but integers: no other kinds
