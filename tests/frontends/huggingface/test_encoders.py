"""Encoders from folders against transformers: the same outputs, masks included."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import transformers as hf
from safetensors.numpy import load_file

from tests.frontends.huggingface.encoder_runs import expected, run, saved
from tests.small_decoders import write_weights
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.huggingface.encoders.importer import encoder_from_huggingface

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


_IMAGE = {"image_size": 16, "patch_size": 8, **_SIZES}
_CLIP_TEXT = {**_TEXT, "eos_token_id": 49}
OTHERS = {
    "vit": (lambda: hf.ViTModel(hf.ViTConfig(**_IMAGE)), ["pixel_values"]),
    "vit that is wide": (
        lambda: hf.ViTModel(hf.ViTConfig(**{**_IMAGE, "image_size": [16, 24]})), ["pixel_values"],
    ),
    "clip's text": (
        lambda: hf.CLIPTextModel(hf.CLIPTextConfig(**_CLIP_TEXT)), ["input_ids", "attention_mask"],
    ),
    "clip's text of old": (
        lambda: hf.CLIPTextModel(hf.CLIPTextConfig(**{**_TEXT, "eos_token_id": 2})),
        ["input_ids", "attention_mask"],
    ),
    "clip's image with its projection": (
        lambda: hf.CLIPVisionModelWithProjection(hf.CLIPVisionConfig(**_IMAGE, projection_dim=16)),
        ["pixel_values"],
    ),
    "clip": (
        lambda: hf.CLIPModel(
            hf.CLIPConfig(text_config=_CLIP_TEXT, vision_config=_IMAGE, projection_dim=16)
        ),
        ["input_ids", "attention_mask", "pixel_values"],
    ),
}  # fmt: skip


def text(model, batch: int = 2, tokens: int = 11, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of an encoder of text; the second sequence is padded, one token in it masked."""
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


def _inputs(model, names: list[str]) -> dict[str, np.ndarray]:
    """Two texts, three images."""
    rng = np.random.default_rng(1)
    found = {}
    if "input_ids" in names:
        ids, mask = rng.integers(3, 49, (2, 9)), np.ones((2, 9), np.int64)
        ids[0, 8] = ids[1, 5] = ids[1, 6] = 49
        mask[1, 6:] = mask[1, 2] = 0
        found |= {"input_ids": ids, "attention_mask": mask}
    if "pixel_values" in names:
        size = getattr(model.config, "vision_config", model.config).image_size
        extents = (size, size) if isinstance(size, int) else tuple(size)
        found["pixel_values"] = rng.standard_normal((3, 3, *extents)).astype(np.float32)
    return found


@pytest.mark.parametrize("case", OTHERS)
def test_encoders_of_images_and_clip_give_what_transformers_gives(case, tmp_path):
    make, names = OTHERS[case]
    model = saved(make(), tmp_path)
    inputs = _inputs(model, names)
    wanted = expected(model, inputs)
    got = run(tmp_path, inputs, {name: values.shape for name, values in inputs.items()})
    if case.endswith("projection"):
        got.pop("pooler_output")
    assert sorted(got) == sorted(wanted)
    for name, values in wanted.items():
        np.testing.assert_allclose(got[name], values, atol=1e-4)


def test_whispers_encoder_is_taken_out_of_the_whole_model(tmp_path):
    config = hf.WhisperConfig(
        vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=8,
        max_source_positions=10, max_target_positions=10, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=3,
    )  # fmt: skip
    model = saved(hf.WhisperForConditionalGeneration(config), tmp_path)
    sound = np.random.default_rng(2).standard_normal((1, 8, 20)).astype(np.float32)
    got = run(tmp_path, {"input_features": sound})
    wanted = expected(model.model.encoder, {"input_features": sound})
    np.testing.assert_allclose(got["last_hidden_state"], wanted["last_hidden_state"], atol=1e-4)


def _name_as_old_versions_did(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    start = "encoder.pos_conv_embed.conv"
    for number, old in enumerate(("weight_g", "weight_v")):
        name = f"{start}.parametrizations.weight.original{number}"
        weights[f"{start}.{old}"] = weights.pop(name)
    write_weights(folder, weights)


@pytest.mark.parametrize(
    ("changes", "neighbours"),
    [({}, 8), ({"do_stable_layer_norm": True, "feat_extract_norm": "layer", "conv_bias": True}, 7)],
)
def test_wav2vec2_sees_no_more_frames_than_the_mask_has(changes, neighbours, tmp_path):
    config = hf.Wav2Vec2Config(
        **_SIZES, conv_dim=[8, 8], conv_kernel=[5, 3], conv_stride=[3, 2],
        num_feat_extract_layers=2, num_conv_pos_embeddings=neighbours,
        num_conv_pos_embedding_groups=4, vocab_size=20, **changes,
    )  # fmt: skip
    model = saved(hf.Wav2Vec2Model(config), tmp_path)
    if changes:
        _name_as_old_versions_did(tmp_path)
    sound = np.random.default_rng(3).standard_normal((2, 90)).astype(np.float32)
    mask = np.ones((2, 90), np.int64)
    mask[1, 50:] = 0
    inputs = {"input_values": sound, "attention_mask": mask}
    got = run(tmp_path, inputs, {"input_values": (2, 90)})["last_hidden_state"]
    np.testing.assert_allclose(got, expected(model, inputs)["last_hidden_state"], atol=1e-4)
    with pytest.raises(UsageError, match="say it: --shape input_values=NxN"):
        encoder_from_huggingface(tmp_path)


def test_a_head_beside_the_encoder_is_let_pass_and_old_names_of_norms_are_read(tmp_path):
    model = saved(hf.BertForMaskedLM(hf.BertConfig(**_TEXT)), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    for new, old in (("weight", "gamma"), ("bias", "beta")):
        for name in [name for name in weights if name.endswith(f"LayerNorm.{new}")]:
            weights[name.removesuffix(new) + old] = weights.pop(name)
    weights["bert.embeddings.position_ids"] = np.arange(20)
    write_weights(tmp_path, weights)
    inputs = text(model)
    got = run(tmp_path, inputs, {"input_ids": (2, 11)})
    assert list(got) == ["last_hidden_state"]
    wanted = expected(model.bert, inputs)["last_hidden_state"]
    np.testing.assert_allclose(got["last_hidden_state"], wanted, atol=1e-4)


def test_a_number_beyond_a_table_is_an_error(tmp_path):
    model = saved(MODELS["bert"](), tmp_path)
    inputs = text(model)
    inputs["input_ids"][0, 3] = 50
    with pytest.raises(IndexError, match="index 50 is out of bounds for axis 0"):
        run(tmp_path, inputs, {"input_ids": (2, 11)})


def _drop(weights: dict, name: str) -> None:
    del weights[name]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: _drop(w, "encoder.layer.1.output.dense.bias"), "output.dense.bias' is missing"),
        (lambda w: w.update({"encoder.layer.2.more": np.ones(3)}), "2.more' has no place"),
        (
            lambda w: w.update({"embeddings.word_embeddings.weight": np.ones((9, 32))}),
            r"is of shape \[9, 32\], but by config.json it is of \[50, 32\]",
        ),
    ],
)
def test_weights_of_another_model_are_refused(change, words, tmp_path):
    saved(MODELS["bert"](), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    change(weights)
    write_weights(tmp_path, {name: value.astype(np.float32) for name, value in weights.items()})
    with pytest.raises(ModelError, match=words):
        encoder_from_huggingface(tmp_path)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"model_type": "t5"}, r"'t5'; expected an encoder \(bert, .*\) or a decoder \(gpt2, "),
        ({"model_type": "gpt2"}, "is the folder of a decoder"),
        ({"is_decoder": True}, "is_decoder is True, which is not supported"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is relative_key"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'; expected one of gelu"),
        ({"num_attention_heads": 5}, r"hidden_size \(32\) is no multiple"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
    ],
)
def test_configs_that_we_do_not_compute_are_refused(keys, words, tmp_path):
    saved(MODELS["bert"](), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))
    with pytest.raises(ModelError, match=words):
        encoder_from_huggingface(tmp_path)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"input_ids": (1, 21)}, r"shape 1x21 of input_ids: expected 1..16777216 x 1..20"),
        ({"input_ids": (8,)}, "shape 8 of input_ids: expected"),
        ({"input_ids": (1, 8), "attention_mask": (1, 9)}, "1x8, 1x9: .* are of one shape"),
        ({"pixel_values": (1, 8)}, "'pixel_values': the model's inputs are input_ids, "),
    ],
)
def test_shapes_that_the_model_does_not_take_are_refused(shapes, words, tmp_path):
    saved(MODELS["bert"](), tmp_path)
    with pytest.raises(UsageError, match=words):
        encoder_from_huggingface(tmp_path, shapes=shapes)


def test_the_usual_shape_is_the_longest_text(tmp_path):
    saved(MODELS["roberta"](), tmp_path)
    main = encoder_from_huggingface(tmp_path)["main"]
    # Rows up to that of padding, which is 1, are no token's.
    assert [[int(n) for n in p.ty.shape] for p in main.params] == [[1, 18], [1, 18]]
