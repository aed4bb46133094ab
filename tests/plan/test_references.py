"""A plan whose rows name rows that are not there is refused before anything looks them up."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_hetero.errors import FormatError
from tvm_hetero.plan.format import FORMAT, plan_from_dict


def plan() -> dict[str, Any]:
    tensor = {"shape": [1], "dtype": "float32"}
    return {
        "format": FORMAT,
        "batch": 1,
        "devices": [{"name": "cpu", "dl_type": 1, "dl_id": 0}],
        "workers": [{"name": "cpu", "device": 0, "cores": [0], "role": "compute"}],
        "slots": [{"name": "x", "device": 0, **tensor}, {"name": "y", "device": 0, **tensor}],
        "inputs": [{"name": "x", "slot": 0, **tensor}],
        "constants": [{"name": "w", "slot": 0}],
        "outputs": [{"name": "y", "slot": 1}],
        "steps": [
            {
                "kind": "copy", "name": "copy", "worker": 0, "ins": [0], "outs": [1],
                "to_device": 0,
            },
        ],
    }  # fmt: skip


@pytest.mark.parametrize("number", [-1, 2, 2**40])
@pytest.mark.parametrize(
    ("rows", "key"),
    [
        ("workers", "device"),
        ("slots", "device"),
        ("inputs", "slot"),
        ("constants", "slot"),
        ("outputs", "slot"),
        ("steps", "worker"),
        ("steps", "ins"),
        ("steps", "outs"),
        ("steps", "to_device"),
    ],
)
def test_a_row_that_is_not_there(rows: str, key: str, number: int) -> None:
    document = plan()
    plan_from_dict(document)
    row = document[rows][0]
    row[key] = [number] if isinstance(row[key], list) else number
    with pytest.raises(FormatError, match=rf"p: {rows}\[0\]: there is no \w+ {number}, expected"):
        plan_from_dict(document, "p")
