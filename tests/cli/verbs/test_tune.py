"""``tvm-hetero tune``: what it says, what it keeps, what it does when it is interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.invoke import tvm_hetero
from tests.cost_models.kernel_samples import elementwise, here, segfaulting
from tvm_hetero.cost_models import ProfileWarning
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.pipeline.tune import Tuned, TuningWork, tune

PLATFORM = here(2)
FIRST = PLATFORM.devices[0]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """One convolution, and the platform of two equal devices, p.yaml, beside it."""
    weight = np.random.default_rng(0).standard_normal((16, 8, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 12, 12])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "one.onnx")
    PLATFORM.save(tmp_path / "p.yaml")
    return tmp_path / "one.onnx"


def test_it_searches_once_and_says_what_it_found(model: Path, own_cache: Path) -> None:
    command = ["tune", model, "--platform", model.with_name("p.yaml"), "--trials", 2]
    first = tvm_hetero(*command)
    assert first.status == 0, first.err
    for piece in ("Tune", "1 kernel on cpu0", "by rule", "speed-up", "tvm-hetero partition"):
        assert piece in first.out
    assert (own_cache / "costs.sqlite").exists()

    second = tvm_hetero(*command, "--json")
    (found,) = json.loads(second.out)
    assert (found["device"], found["tasks"], found["trials"]) == ("cpu0", 1, 2)
    assert found["rule_seconds"] > 0 and found["speed_up"] >= 1
    assert (found["seconds"] is None) == (found["speed_up"] == 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "cpu7"], "no CPU device 'cpu7'; did you mean 'cpu"),
        (["--kernels", "conf2d"], "no kernel has 'conf2d' in its name"),
        (["--trials", "0"], "--trials"),
    ],
)
def test_what_is_not_there_is_named(
    model: Path, own_cache: Path, options: list[str], message: str
) -> None:
    outcome = tvm_hetero("tune", model, "--platform", model.with_name("p.yaml"), *options)
    assert outcome.status == 2
    assert message in outcome.err


def test_an_interruption_still_tells_what_was_found(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.sqlite")

    def press_ctrl_c(done: int, total: int, best: float, kernel: str) -> None:
        assert (done, total, kernel) == (1, 10, "doubles")
        raise KeyboardInterrupt

    works = [TuningWork(elementwise("doubles", 512, 3), FIRST, 1, 1e-6)] * 2
    found: list[Tuned] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(tune(works, PLATFORM, 5, store=store, progress=press_ctrl_c))
    assert [each.tuning.trials for each in found] == [1]


def test_a_kernel_that_does_not_run_is_left_out(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.sqlite")
    with pytest.warns(ProfileWarning, match="'crashes' on device 'cpu0' is not tuned: .*SIGSEGV"):
        assert (
            list(tune([TuningWork(segfaulting(), FIRST, 1, 1.0)], PLATFORM, 1, store=store)) == []
        )


def test_no_time_no_trial(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.sqlite")
    assert (
        list(tune([TuningWork(segfaulting(), FIRST, 1, 1.0)], PLATFORM, 1, 0.0, store=store)) == []
    )
