"""``tvm-hetero partition FOLDER`` of an encoder, and what is refused of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import transformers as hf

from tests.cli.invoke import tvm_hetero
from tests.frontends.huggingface.encoder_runs import expected, saved
from tests.models import two_cpus
from tvm_hetero.executor.executor import load


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``two.yaml``, two unlike devices."""
    path = tmp_path_factory.mktemp("encoder")
    platform = two_cpus()
    figures = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    devices = tuple(replace(device, **figures) for device in platform.devices)
    replace(platform, devices=devices).save(path / "two.yaml")
    return path


def partition(place: Path, folder: Path, *more: object):
    return tvm_hetero(
        "partition", folder, "-o", place / "net.hetero", "--platform", place / "two.yaml",
        "--cost-model", "analytical", "--solver", "heft", "--no-measure", *more,
    )  # fmt: skip


def test_an_encoders_folder_becomes_an_artifact_that_gives_what_transformers_gives(place):
    config = hf.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=16,
    )  # fmt: skip
    model = saved(hf.BertModel(config), place / "bert")
    outcome = partition(place, place / "bert", "--shape", "input_ids=1x6")
    assert outcome.status == 0, outcome.err
    assert "encoder of input_ids=1x6, attention_mask=1x6, token_type_ids=1x6" in outcome.out
    inputs = {
        "input_ids": np.array([[7, 3, 41, 9, 0, 0]]),
        "attention_mask": np.array([[1, 1, 1, 1, 0, 0]]),
        "token_type_ids": np.array([[0, 0, 1, 1, 0, 0]]),
    }
    with load(place / "net.hetero") as net:
        got = dict(zip(net.outputs, net.run(inputs), strict=True))
    for name, values in expected(model, inputs).items():
        np.testing.assert_allclose(got[name].numpy(), values, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "more", "words"),
    [
        ("bert", ["--value", "input_ids=3"], "--value is for model files"),
        ("bert", ["--random-weights", 1], "--random-weights is for model files"),
        ("bert", ["--chunk", 4], "--chunk is for decoders"),
        ("t5", [], "model_type is 't5'; expected an encoder (bert, "),
    ],
)
def test_options_and_models_that_are_not_for_encoders_are_refused(kind, more, words, place):
    folder = place / f"only-{kind}"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(f'{{"model_type": "{kind}"}}')
    outcome = partition(place, folder, *more)
    assert outcome.status != 0
    assert words in outcome.err
