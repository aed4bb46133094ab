"""Embeddings of an encoder, by OpenAI's client, beside transformers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import openai
import pytest
import transformers as hf

from tests.cli.invoke import tvm_hetero
from tests.frontends.huggingface.encoder_runs import expected, saved
from tests.models import two_cpus
from tests.serve.in_process import serving
from tests.serve.small_tokenizer import VOCABULARY, write_texts
from tvm_hetero.errors import RunError
from tvm_hetero.serve.openai.embeddings import all_or_none
from tvm_hetero.serve.text.folder import read_texts

LENGTH = 16
TEXTS = ["the quick fox", "naïve café 🎉", "x"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """``bert.hetero``, and transformers' model."""
    home = tmp_path_factory.mktemp("encoder")
    config = hf.BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=LENGTH,
    )  # fmt: skip
    model = saved(hf.BertModel(config), home / "bert")
    write_texts(home / "bert")
    figures = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    platform = two_cpus()
    devices = tuple(replace(device, **figures) for device in platform.devices)
    replace(platform, devices=devices).save(home / "two.yaml")
    outcome = tvm_hetero(
        "partition", home / "bert", "-o", home / "bert.hetero", "--platform", home / "two.yaml",
        "--cost-model", "analytical", "--solver", "heft", "--no-measure",
        "--shape", f"input_ids=1x{LENGTH}",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    return home / "bert.hetero", model


@pytest.fixture(scope="module")
def client(encoder, chat_model):
    with serving({"bert": encoder[0], "chat": chat_model}) as server:
        yield openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def theirs(model, tokens):
    """The mean of the hidden states of the text's own tokens, of length 1."""
    padded = np.zeros((1, LENGTH), np.int64)
    padded[0, : len(tokens)] = tokens
    mask = (np.arange(LENGTH) < len(tokens)).astype(np.int64)[None]
    inputs = {"input_ids": padded, "attention_mask": mask, "token_type_ids": np.zeros_like(padded)}
    mean = expected(model, inputs)["last_hidden_state"][0, : len(tokens)].mean(axis=0)
    return mean / np.linalg.norm(mean)


def test_vectors_are_means_of_the_hidden_states_of_transformers(client, encoder):
    path, model = encoder
    tokenizer = read_texts(path).tokenizer  # it came with the artifact
    tokens = [tokenizer.encode(text) for text in TEXTS]
    wanted = [theirs(model, each) for each in tokens]
    for given in (TEXTS, tokens):
        for more in ({}, {"encoding_format": "float"}):  # the first asks for base64
            answer = client.embeddings.create(model="bert", input=given, **more)
            assert [row.index for row in answer.data] == [0, 1, 2]
            for row, vector in zip(answer.data, wanted, strict=True):
                np.testing.assert_allclose(row.embedding, vector, atol=1e-4)
    assert answer.usage.prompt_tokens == sum(map(len, tokens))
    assert "bert" in {model.id for model in client.models.list()}


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"input": "the dog " * 40}, "input"),
        ({"input": [1] * (LENGTH + 1)}, "input"),
        ({"input": []}, "input"),
        ({"input": [-1]}, "input"),
        ({"input": "x", "dimensions": 8}, "dimensions"),
        ({"input": "x", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "x", "model": "chat"}, "model"),
    ],
)
def test_what_is_no_text_of_the_encoder_is_refused(client, more, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(**{"model": "bert", "encoding_format": "float", **more})
    assert caught.value.param == param


def test_where_one_text_cannot_be_embedded_nothing_goes_on_for_the_others():
    ended = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise RunError("no")

    async def main() -> None:
        with pytest.raises(RunError, match="no"):
            await all_or_none([endless(), fail(), endless()])
        await asyncio.sleep(0)

    asyncio.run(main())
    assert ended == ["cancelled"] * 2
