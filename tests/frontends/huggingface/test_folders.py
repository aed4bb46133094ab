"""Folders of decoders: what is read of them, and what is refused, with which words."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.frontends.huggingface.decoder_runs import reference
from tests.small_decoders import CONFIGS, FAMILIES, random_weights, tiny, write_raw, write_weights
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.huggingface import from_huggingface, gpt2, llama_family, read_config
from tvm_hetero.frontends.huggingface.safetensors_file import TensorFile
from tvm_hetero.frontends.huggingface.weights import Weights

BUILDERS = dict.fromkeys(CONFIGS, llama_family) | {"gpt2": gpt2}


def opened(folder: Path) -> Weights:
    """The weights of a folder, as `from_huggingface` opens them."""
    config = read_config(folder)
    family = BUILDERS[config.family]
    tied = (family.HEAD, family.TABLE) if config.tied else None
    return Weights(folder, family.weight_shapes(config), tied)


def edit(path: Path, change: Callable[[dict], object]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "files"), [("float32", 1), ("bfloat16", 3), ("float16", 2)])
def test_weights_come_as_they_were_written(family, dtype, files, tmp_path):
    folder = tiny(family, tmp_path, seed=3, dtype=dtype, files=files)
    wanted = random_weights(CONFIGS[family], 3)
    with opened(folder) as weights:
        for name, values in wanted.items():
            assert weights[name].dtype.name == dtype
            np.testing.assert_array_equal(weights[name], values.astype(weights[name].dtype))


def test_files_of_the_formats_own_library_are_read(tmp_path):
    from safetensors.numpy import save_file

    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(5, np.float16)}
    save_file(tensors, tmp_path / "some.safetensors", {"format": "np"})
    with TensorFile(tmp_path, "some.safetensors") as file:
        for name, values in tensors.items():
            np.testing.assert_array_equal(file.read(name), values)


def test_names_without_the_models_own_and_stored_constants_are_let_pass(tmp_path):
    folder = tiny("gpt2", tmp_path, seed=1)
    weights = random_weights(CONFIGS["gpt2"], 1)
    short = {name.removeprefix("transformer."): values for name, values in weights.items()}
    short["h.0.attn.bias"] = np.ones((1, 1, 64, 64), np.float32)
    short["lm_head.weight"] = weights["transformer.wte.weight"]
    write_weights(folder, short)
    with opened(folder) as read:
        for name, values in weights.items():
            np.testing.assert_array_equal(read[name], values)


@pytest.mark.parametrize("family", CONFIGS)
def test_what_transformers_saves_is_read(family, tmp_path):
    folder = tiny(family, tmp_path / "ours", seed=4)
    reference(folder).save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    ours, theirs = read_config(folder), read_config(tmp_path / "theirs")
    assert replace(ours, source={}) == replace(theirs, source={})
    with opened(tmp_path / "theirs") as weights:
        for name, values in random_weights(CONFIGS[family], 4).items():
            np.testing.assert_array_equal(weights[name], values)


def test_the_hubs_cache_is_read_through_its_links(tmp_path):
    revision = tmp_path / "snapshots" / "abc"
    tiny("llama", revision)
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for i, file in enumerate(sorted(revision.iterdir())):
        blob = blobs / f"{i:064x}"
        file.rename(blob)
        file.symlink_to(os.path.relpath(blob, revision))
    with opened(revision) as weights:
        assert weights["model.norm.weight"].shape == (32,)


def test_config_says_the_same_in_the_old_words_and_the_new(tmp_path):
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 16}  # fmt: skip
    old = {"rope_theta": 777.0, "rope_scaling": {"rope_type": "llama3", **scaling}}
    new = {
        "rope_theta": None,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 777.0, **scaling},
    }
    one = read_config(tiny("llama", tmp_path / "a", **old))
    other = read_config(tiny("llama", tmp_path / "b", **new))
    assert one.rotary == other.rotary
    assert one.rotary.base == 777.0


@pytest.mark.parametrize("kind", ["default", "linear", "llama3"])
def test_frequencies_are_those_of_transformers(kind, tmp_path):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    scaling = {"rope_type": kind, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
               "original_max_position_embeddings": 32}  # fmt: skip
    folder = tiny("llama", tmp_path, rope_theta=1000.0, rope_scaling=scaling, head_dim=64)
    theirs = LlamaRotaryEmbedding(LlamaConfig.from_pretrained(folder)).inv_freq.numpy()
    ours = read_config(folder).rotary
    np.testing.assert_allclose(ours.frequencies(), theirs, rtol=3e-7)
    np.testing.assert_allclose(ours.table(9)[8], np.r_[np.cos(8 * theirs), np.sin(8 * theirs)],
                               atol=1e-6)  # fmt: skip


def test_a_window_limits_the_length_where_there_is_one(tmp_path):
    assert read_config(tiny("mistral", tmp_path / "a", sliding_window=9)).longest == 9
    assert read_config(tiny("mixtral", tmp_path / "b", sliding_window=4096)).longest == 64
    assert read_config(tiny("qwen2", tmp_path / "c", sliding_window=9)).longest == 64
    slides = tiny("qwen2", tmp_path / "d", sliding_window=9, use_sliding_window=True)
    assert read_config(slides).longest == 9


@pytest.mark.parametrize("family", [name for name in CONFIGS if name != "gpt2"])
def test_keys_that_are_not_there_have_the_values_of_transformers(family, tmp_path):
    import transformers

    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    ours, theirs = read_config(tmp_path), transformers.AutoConfig.for_model(family)
    window = getattr(theirs, "sliding_window", None) or theirs.max_position_embeddings
    wanted = (
        theirs.vocab_size, theirs.hidden_size, theirs.num_hidden_layers,
        theirs.num_attention_heads, theirs.num_key_value_heads, theirs.intermediate_size,
        min(window, theirs.max_position_embeddings), theirs.rms_norm_eps,
        theirs.rope_parameters["rope_theta"], theirs.tie_word_embeddings,
    )  # fmt: skip
    assert wanted == (
        ours.vocabulary, ours.width, ours.layers, ours.heads, ours.kv_heads, ours.inner,
        ours.longest, ours.epsilon, ours.rotary.base, ours.tied,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("family", "changes", "words"),
    [
        ("gpt2", {"model_type": "mamba"}, "model_type is 'mamba'; expected one of gpt2, llama"),
        ("gpt2", {"n_head": 5}, r"n_embd \(32\) is no multiple of n_head \(5\)"),
        ("gpt2", {"n_layer": 0}, "n_layer is 0; expected an integer from 1"),
        ("gpt2", {"n_layer": 10**9}, "n_layer is 1000000000; expected an integer from 1 to"),
        ("gpt2", {"n_embd": "32"}, "n_embd is '32'; expected an integer"),
        ("gpt2", {"n_embd": True}, "n_embd is True; expected an integer"),
        ("gpt2", {"vocab_size": 1 << 24, "n_embd": 1 << 20, "n_head": 1}, "is absurd"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention is True, which is not supp"),
        ("gpt2", {"activation_function": "mish"}, "activation_function is 'mish'; expected one of"),
        ("llama", {"quantization_config": {"bits": 4}}, "quantization_config is .*not supported"),
        ("llama", {"num_key_value_heads": 3}, "is no multiple of num_key_value_heads"),
        ("llama", {"rms_norm_eps": -1.0}, "rms_norm_eps is -1.0; expected a finite number above 0"),
        ("llama", {"head_dim": 7}, "heads of 7 numbers cannot be rotated in pairs"),
        ("llama", {"rope_scaling": {"type": "yarn", "factor": 2.0}}, "type 'yarn', which is not"),
        ("llama", {"rope_scaling": {"type": "linear"}}, "factor is None; expected a finite number"),
        ("llama", {"rope_scaling": "x"}, "rope_scaling is x; expected a mapping"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor is not supported"),
        ("llama", {"tie_word_embeddings": "no"}, "is 'no'; expected true or false"),
        ("mixtral", {"sliding_window": -1}, "sliding_window is -1; expected an integer from 1"),
        (
            "mixtral",
            {"num_local_experts": 9999, "num_hidden_layers": 99},
            "times experts is absurd",
        ),
        ("mixtral", {"num_experts_per_tok": 5}, "but there are 4 experts"),
    ],
)
def test_configs_that_are_not_computed_are_refused_by_name(family, changes, words, tmp_path):
    folder = tiny(family, tmp_path)
    edit(folder / "config.json", lambda data: data.update(changes))
    with pytest.raises(ModelError, match=words):
        read_config(folder)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1, "a": 2}', '{"a": NaN}', "\xff"])
def test_what_is_no_config_is_refused(text, tmp_path):
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=r"config\.json"):
        read_config(tmp_path)


def test_folders_that_are_none_and_pickles_are_refused(tmp_path):
    with pytest.raises(ModelError, match="does not exist; expected the folder of a Hugging Face"):
        read_config(tmp_path / "none")
    folder = tiny("gpt2", tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has neither model\.safetensors nor"):
        opened(folder)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelError, match=r"is a pickle.*safe_serialization=True"):
        opened(folder)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_head_that_is_tied_and_stored_must_be_the_table(family, tmp_path):
    folder = tiny(family, tmp_path, tie_word_embeddings=True)
    weights = dict(random_weights({**CONFIGS[family], "tie_word_embeddings": True}, 0))
    table = weights[BUILDERS[family].TABLE]
    write_weights(folder, {**weights, "lm_head.weight": table})
    opened(folder).close()
    write_weights(folder, {**weights, "lm_head.weight": table * np.float32(2)})
    with pytest.raises(
        ModelError, match=r"'lm_head.weight' is not the same as .*Set that to false"
    ):
        opened(folder)


def test_weights_that_do_not_fit_the_config_are_refused(tmp_path):
    folder = tiny("llama", tmp_path)
    weights = random_weights(CONFIGS["llama"], 0)
    name = "model.layers.1.mlp.up_proj.weight"
    write_weights(folder, {n: w for n, w in weights.items() if n != name})
    with pytest.raises(ModelError, match=f"the weight '{name}' is missing; did you mean"):
        opened(folder)
    write_weights(folder, {**weights, name: weights[name].T.copy()})
    with pytest.raises(ModelError, match=rf"'{name}' is of shape \[32, 48\], but .* \[48, 32\]"):
        opened(folder)
    write_weights(folder, {**weights, "model.layers.2.mlp.up_proj.weight": weights[name]})
    with pytest.raises(ModelError, match=r"up_proj\.weight' has no place in the model"):
        opened(folder)
    write_weights(folder, {**weights, name: weights[name].astype(np.int64)})
    with opened(folder) as read, pytest.raises(ModelError, match="is of type I64; expected one of"):
        read[name]


@pytest.mark.parametrize(
    "name", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "a\nb", "c:x"]
)
def test_an_index_does_not_lead_out_of_its_folder(name, tmp_path):
    folder = tiny("gpt2", tmp_path, files=2)
    edit(
        folder / "model.safetensors.index.json",
        lambda data: data["weight_map"].update({"transformer.wte.weight": name}),
    )
    with pytest.raises(ModelError, match="not plain or leaves the model's folder"):
        opened(folder)


def test_an_index_that_its_files_contradict_is_refused(tmp_path):
    folder = tiny("gpt2", tmp_path, files=2)
    index = folder / "model.safetensors.index.json"
    kept = index.read_text()
    edit(index, lambda data: data["weight_map"].pop("transformer.wte.weight"))
    with pytest.raises(ModelError, match=r"has 'transformer\.wte\.weight', unlike"):
        opened(folder)
    index.write_text(kept)
    edit(index, lambda data: data["weight_map"].update(
        {"x": data["weight_map"]["transformer.wte.weight"]}))  # fmt: skip
    with pytest.raises(ModelError, match="lacks 'x', unlike"):
        opened(folder)
    for text in ('{"weight_map": 3}', '{"weight_map": {"a": 1}}', '{"weight_map": {}}', "{"):
        index.write_text(text)
        with pytest.raises(ModelError, match=r"index\.json"):
            opened(folder)


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_what_is_no_plain_file_of_the_folder_is_refused(kind, tmp_path):
    folder = tiny("gpt2", tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.rename(tmp_path / "elsewhere")
    make = {
        "link": lambda: weights.symlink_to("../elsewhere"),
        "hard link": lambda: os.link(tmp_path / "elsewhere", weights),
        "pipe": lambda: os.mkfifo(weights),
        "folder": weights.mkdir,
    }[kind]
    make()
    with pytest.raises(ModelError, match="Only plain files in the model's own folder are read"):
        opened(folder)


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> bytes:
    value = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    return json.dumps({"a": value}).encode()


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        (b"{", b"", "not valid JSON"),
        (b"[1]", b"", "expected a mapping"),
        (b'{"a": 1}', b"", "expected dtype, shape and data_offsets, got 1"),
        (b'{"a": 1, "a": 2}', b"", "'a' is given twice"),
        (entry("F77"), bytes(8), 'type "F77" is unknown'),
        (entry(shape=(-1,)), bytes(8), "expected integers from 0 on"),
        (entry(shape=(2.0,)), bytes(8), "expected integers from 0 on"),
        (entry(shape=(1 << 40, 1 << 40)), bytes(8), "but it has bytes 0 to 8"),
        (entry(shape=(1 << 40,), offsets=(0, 1 << 42)), bytes(8), "its tensors take 4398046511104"),
        (entry(offsets=(8, 0)), bytes(8), "but it has bytes 8 to 0"),
        (entry(offsets=(4, 12)), bytes(12), "begins at byte 4 of the data"),
        (entry(), bytes(7), "its tensors take 8 bytes, but 7"),
        (entry(), bytes(9), "its tensors take 8 bytes, but 9"),
    ],
)
def test_headers_that_lie_are_refused_before_anything_is_read(header, data, words, tmp_path):
    write_raw(tmp_path / "a.safetensors", header, data)
    with pytest.raises(ModelError, match=words):
        TensorFile(tmp_path, "a.safetensors")


@settings(max_examples=draws(30), deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_read(tmp_path_factory, data):
    folder = tiny("gpt2", tmp_path_factory.mktemp("damaged"), n_layer=1, n_embd=8, n_head=2)
    path = folder / "model.safetensors"
    raw = bytearray(path.read_bytes())
    length = int.from_bytes(raw[:8], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, 8 + length - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(
        raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    )
    try:
        with opened(folder) as weights:
            for name in gpt2.weight_shapes(read_config(folder)):
                assert weights[name].dtype.kind in "fV"
    except ModelError:
        pass


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"length": 65}, "length=65: expected 1 to 64, the model's longest"),
        ({"length": 0}, "length=0: expected 1 to 64"),
        ({"tokens": 9, "length": 8}, "tokens=9: expected 1 to 8, the rows of the caches"),
        ({"shards": 3}, "shards=3: expected 1 to 2; a layer has 2 heads of keys and 48 units"),
        ({"weights": "int3"}, "weights='int3': expected one of float32, bfloat16, int8, int4"),
        ({"cache": "int8"}, "cache='int8': expected one of float32"),
    ],
)
def test_arguments_out_of_their_range_are_refused(options, words, tmp_path):
    with pytest.raises(UsageError, match=words):
        from_huggingface(tiny("llama", tmp_path), **options)
