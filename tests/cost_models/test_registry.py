"""Cost models by name, and what they are asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_hetero.cost_models import by_name
from tvm_hetero.cost_models.protocol import MeasuringCostModel
from tvm_hetero.cost_models.registry import NAMES, measures
from tvm_hetero.cost_models.table import dump_costs
from tvm_hetero.errors import UsageError
from tvm_hetero.problem.cost import Cost


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_whether_its_model_measures(name: str, tmp_path: Path, own_cache) -> None:
    path = tmp_path / "costs.json"
    dump_costs({"a": {"cpu0": Cost(((1, 1.0),))}}, path)
    name = name.replace("PATH", str(path))
    model = by_name(name)
    assert model.name == name
    assert measures(name) == name.startswith("profiled")
    # The quick one measures some kernels, and no links that it may assume.
    assert isinstance(model, MeasuringCostModel) == (measures(name) or name == "quick")


def test_only_the_whole_network_is_measured_in_place(own_cache) -> None:
    both = [by_name(name) for name in ("profiled", "profiled-alone")]
    assert [model.in_place for model in both if isinstance(model, MeasuringCostModel)] == [
        True, False,
    ]  # fmt: skip


def test_what_begins_like_a_measuring_model_is_none() -> None:
    assert not measures("profiled-somehow")
    with pytest.raises(UsageError, match="unknown cost model 'profiled-somehow'"):
        by_name("profiled-somehow")
