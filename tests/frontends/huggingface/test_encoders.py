"""Encoders from folders against transformers: the same outputs, masks included."""

from __future__ import annotations

import numpy as np
import pytest
import transformers as hf

from tests.frontends.huggingface.encoder_runs import expected, run, saved

_SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip
_TEXT = {"vocab_size": 50, "max_position_embeddings": 20, **_SIZES}
MODELS = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**_TEXT)),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**_TEXT, type_vocab_size=1)),
    "distilbert": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(
            vocab_size=50, max_position_embeddings=20, dim=32, hidden_dim=48, n_layers=2, n_heads=4
        )
    ),
}


def text(model, batch: int = 2, tokens: int = 11, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of an encoder of text; the second sequence is padded, and one token in it is masked."""
    rng = np.random.default_rng(seed)
    padding = model.config.pad_token_id
    ids = rng.integers(3, 50, (batch, tokens), dtype=np.int64)
    mask = np.ones_like(ids)
    ids[1, 7:], mask[1, 7:], mask[1, 2] = padding, 0, 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = rng.integers(0, 2, ids.shape, dtype=np.int64)
    return inputs


@pytest.mark.parametrize("family", MODELS)
def test_outputs_are_those_of_transformers(family, tmp_path):
    model = saved(MODELS[family](), tmp_path)
    inputs = text(model)
    wanted = expected(model, inputs)
    got = run(tmp_path, inputs, {"input_ids": (2, 11)})
    assert sorted(got) == sorted(wanted)
    for name, values in wanted.items():
        np.testing.assert_allclose(got[name], values, atol=1e-4)
    whole = expected(model, {**inputs, "attention_mask": np.ones_like(inputs["attention_mask"])})
    assert np.abs(whole["last_hidden_state"] - wanted["last_hidden_state"]).max() > 1e-2
