"""Costs from a file, read strictly, and by which names cost models are found."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cost_models.kernel_samples import elementwise
from tvm_hetero.cost_models import by_name
from tvm_hetero.cost_models.table import TableCosts, dump_costs, load_costs
from tvm_hetero.errors import FormatError, PlatformError, ProfileError, UsageError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost

PLATFORM = Platform((Device("big"), Device("little")))


def write(path: Path, kernels: Any, **more: Any) -> Path:
    file = path / "costs.json"
    file.write_text(json.dumps({"format": "tvm-hetero/costs/1", "kernels": kernels, **more}))
    return file


def test_rows_are_found_by_the_kernels_names(tmp_path: Path) -> None:
    table = {"k": {"big": 0.5, "little": {"4": 3.0, "1": 1.0}}, "unused": {"big": 1}}
    model = by_name(f"table:{write(tmp_path, table)}")
    assert model.name.startswith("table:")
    costs = model.costs([elementwise("k")], PLATFORM)
    assert costs == {"k": {"big": Cost(((1, 0.5),)), "little": Cost(((1, 1.0), (4, 3.0)))}}


@pytest.mark.parametrize(
    ("kernels", "more", "message"),
    [
        ([], {}, "kernels: expected a mapping"),
        ({"k": 1.0}, {}, "kernel 'k': expected a mapping"),
        ({"k": {"big": -1}}, {}, "kernel 'k' on 'big'"),
        ({"k": {"big": "soon"}}, {}, "kernel 'k' on 'big'"),
        ({"k": {"big": {}}}, {}, "table is empty"),
        ({"k": {"big": {"0": 1.0}}}, {}, "batch sizes"),
        ({"k": {"big": True}}, {}, "kernel 'k' on 'big'"),
        ({}, {"kernel": {}}, "unknown key 'kernel'; did you mean 'kernels'"),
        ({}, {"format": "tvm-hetero/costs/2"}, "tvm-hetero/costs/1"),
    ],
)
def test_a_table_is_read_strictly(
    tmp_path: Path, kernels: Any, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        TableCosts(write(tmp_path, kernels, **more))


def test_what_the_table_lacks_is_named(tmp_path: Path) -> None:
    rows = {"fused_conv": {"big": 1.0}, "empty": {}, "typo": {"bgi": 1.0}}
    table = TableCosts(write(tmp_path, rows))
    with pytest.raises(ProfileError, match="'fused_conf'; did you mean 'fused_conv'"):
        table.costs([elementwise("fused_conf")], PLATFORM)
    with pytest.raises(ProfileError, match="'empty' has a cost on no device: its row"):
        table.costs([elementwise("empty")], PLATFORM)
    with pytest.raises(PlatformError, match=r"'bgi', which platform .* did you mean 'big'"):
        table.costs([elementwise("typo")], PLATFORM)


SECONDS = st.just(0.0) | st.floats(1e-30, 1e6)
COSTS = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.dictionaries(
        st.sampled_from(["big", "little"]),
        st.dictionaries(st.integers(1, 64), SECONDS, min_size=1, max_size=4).map(
            lambda points: Cost(tuple(sorted(points.items())))
        ),
    ),
    max_size=4,
)


@given(costs=COSTS)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, costs: dict[str, dict[str, Cost]]
) -> None:
    path = tmp_path_factory.mktemp("costs") / "c.json"
    dump_costs(costs, path)
    assert load_costs(path) == costs


def test_a_cost_that_is_no_number_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="'k' on 'big'"):
        dump_costs({"k": {"big": Cost(((1, math.nan),))}}, tmp_path / "c.json")
    assert not (tmp_path / "c.json").exists()


def test_models_are_found_by_name() -> None:
    assert by_name("profiled").name == "profiled"
    assert by_name("profiled-alone").name == "profiled-alone"
    assert by_name("analytical").name == "analytical"
    hints = {"profile": "'profiled'", "table": "table:PATH", "table:": "table:PATH"}
    for wrong, hint in hints.items():
        with pytest.raises(UsageError, match=hint):
            by_name(wrong)
    with pytest.raises(FormatError, match="cannot be read"):
        by_name("table:/no/such/file.json")
