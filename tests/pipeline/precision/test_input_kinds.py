"""Random inputs of several kinds: what each looks like, of floats and of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.kernels.helpers import model
from tvm_hetero.errors import RunError
from tvm_hetero.executor.inputs import TensorInfo
from tvm_hetero.passes.lowered_main import LoweredMain, read_main
from tvm_hetero.pipeline.precision.calibration_inputs import (
    DrawnInputs,
    calibration_inputs,
    random_inputs,
    sound_kinds,
)
from tvm_hetero.pipeline.precision.input_kinds import KINDS, draw_inputs

INFOS = [
    TensorInfo("x", (2, 3, 40, 50), "float32", None),
    TensorInfo("ids", (2, 64), "int64", (5, 900)),
    TensorInfo("scalar", (), "float32", None),
    TensorInfo("digit", (), "int32", None),
]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_of_the_inputs_shape_type_and_range(kind: str) -> None:
    drawn = draw_inputs(INFOS, kind, 3)
    for info in INFOS:
        assert drawn[info.name].shape == info.shape and drawn[info.name].dtype == info.dtype
        assert np.isfinite(drawn[info.name]).all()
    for seed in range(20):
        drawn = draw_inputs(INFOS, kind, seed)
        assert drawn["ids"].min() >= 5 and drawn["ids"].max() <= 900
        assert 0 <= drawn["digit"] <= 9
    again, other = draw_inputs(INFOS, kind, 3), draw_inputs(INFOS, kind, 4)
    first = draw_inputs(INFOS, kind, 3)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_each_kind_is_what_its_name_says() -> None:
    x = {kind: draw_inputs(INFOS, kind, 1)["x"].astype(float) for kind in KINDS}
    ids = {kind: draw_inputs(INFOS, kind, 1)["ids"] for kind in KINDS}
    assert abs(x["normal"].mean()) < 0.05 and abs(x["normal"].std() - 1) < 0.05
    assert x["uniform"].min() >= 0 and x["uniform"].max() <= 1 and x["uniform"].std() > 0.2
    step = np.abs(np.diff(x["smooth"], axis=-1)).max() / np.ptp(x["smooth"])
    assert step < 0.15 and np.ptp(x["smooth"]) > 1
    assert 0.87 < (x["sparse"] == 0).mean() < 0.93
    assert np.ptp(x["constant"]) == 0 and np.ptp(ids["constant"]) == 0
    assert len(np.unique(x["extreme"])) == 3 and set(np.unique(ids["extreme"])) == {5, 900}
    scales = {float(draw_inputs(INFOS, "extreme", seed)["x"].max()) for seed in range(30)}
    assert len(scales) == 3 and max(scales) == 255
    assert (ids["sparse"] == 5).mean() > 0.8
    assert (np.diff(ids["smooth"], axis=-1) == 0).mean() > 0.8


@pytest.fixture(scope="module")
def main() -> LoweredMain:
    return read_main(model([(2, 8)], lambda x: x))


def test_others_are_drawn_in_turns_and_apart_from_those_for_calibration(main: LoweredMain) -> None:
    inputs, others = calibration_inputs(main, (), 5, KINDS, 14)
    assert len(inputs) == len(KINDS) and len(others) == 14 == len(list(others))
    values = [each["input0"] for each in (*inputs, *others)]
    assert len({value.tobytes() for value in values}) == len(values)
    assert np.ptp(others[KINDS.index("constant")]["input0"]) == 0
    assert isinstance(others, DrawnInputs) and len(others[2:5]) == 3
    with pytest.raises(IndexError):
        others[14]
    plain, rest = calibration_inputs(main, (), 5, ["normal"], 2)
    assert len(plain) == len(rest) == 2


def test_of_given_inputs_every_second_one_is_held_out(main: LoweredMain) -> None:
    given = [random_inputs(main, seed) for seed in range(5)]
    inputs, others = calibration_inputs(main, given, 0, KINDS, 300)
    assert [id(each) for each in inputs] == [id(each) for each in given[::2]]
    assert [id(each) for each in others] == [id(each) for each in given[1::2]]


def test_kinds_that_say_nothing_of_errors_are_left_out(main: LoweredMain) -> None:
    def refused(values: Any) -> list[np.ndarray]:
        raise RunError("no")

    def of(change: Callable[[np.ndarray], np.ndarray]) -> list[str]:
        return sound_kinds(main, 0, lambda values: [change(values["input0"])])

    assert of(lambda x: x) == list(KINDS)
    assert of(lambda x: x - x[0, 0]) == [kind for kind in KINDS if kind != "constant"]
    assert of(lambda x: np.where(np.ptp(x) > 0, x, np.inf)) == [k for k in KINDS if k != "constant"]
    assert of(lambda x: np.full(3, np.nan)) == sound_kinds(main, 0, refused) == ["normal"]
