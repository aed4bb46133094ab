"""The recordings that are committed, and the program that makes them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import record
from benchmarks.execution.cases import TINY, NetBuilder
from benchmarks.execution.paper_networks import PAPER_NETWORKS, parameters
from tvm_hetero.online.table import Recording
from tvm_hetero.zoo.files import stored_layers

RECORDED = {path.stem: path for path in record.FOLDER.glob("*.json")}
MOST_BYTES = 200_000


def test_all_models_are_recorded() -> None:
    assert set(RECORDED) == set(record.MODELS)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_is_whole_and_small(name: str) -> None:
    recording = Recording.load(RECORDED[name])
    assert recording.name == name and RECORDED[name].stat().st_size < MOST_BYTES
    assert recording.scenarios == ("alone", *record.DISTURBANCES)
    assert recording.kinds == {"native": (1, 2), "x86-64-v2": (1, 2)}
    assert len(recording.noise) >= 50


@pytest.mark.parametrize("name", RECORDED)
def test_who_has_half_of_a_core_takes_twice_as_long(name: str) -> None:
    recording = Recording.load(RECORDED[name])
    totals = {
        scenario: math.fsum(recording.seconds[scenario]["native"][1])
        for scenario in recording.scenarios
    }
    assert 1.8 < totals["busy"] / totals["alone"] < 2.3
    assert totals["stream@own"] > totals["busy"]
    assert 0.9 < totals["thrash"] / totals["alone"] < 1.5
    old = math.fsum(recording.seconds["alone"]["x86-64-v2"][1])
    assert old > 3 * totals["alone"]


@pytest.mark.parametrize("name", PAPER_NETWORKS)
def test_a_paper_s_network_has_the_parameters_and_work_of_its_list_of_layers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How many there are is asked, not which: to draw the 138 million of VGG-16 takes seconds.
    def zeros(net: NetBuilder, shape: tuple[int, ...], _variance: float) -> str:
        return net.constant(np.zeros(shape, np.float32))

    monkeypatch.setattr(NetBuilder, "weight", zeros)
    layers = stored_layers(name)
    model = record.model_of(name)
    listed = sum(layer.parameters for layer in layers.layers)
    assert parameters(model) == pytest.approx(listed, rel=1e-5)
    recording = Recording.load(RECORDED[name])
    # Fused additions and activations are not in the list.
    assert math.fsum(recording.weights) == pytest.approx(layers.weight, rel=0.03)


def test_the_small_mode_records_what_it_is_told(tmp_path: Path) -> None:
    (made,) = record.main([
        "--models", TINY, "--places", "native:1", "--seconds", "0.02", "--noise", "60",
        "--cost-model", "quick", "--output", str(tmp_path),
    ])  # fmt: skip
    assert Recording.load(tmp_path / f"{TINY}.json") == made
    assert made.name == TINY and record.line(made).startswith("tiny\n  native:1 ")


def test_an_unknown_model_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        record.main(["--models", "resnet51"])
    assert "there is no 'resnet51'" in capsys.readouterr().err
