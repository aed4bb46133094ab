"""What an encoder's family is, as far as it differs from others in words and not in arithmetic.

A layer is one of two:

    norm behind    x = norm(x + attention(x))    x = norm(x + network(x))
    norm before    x = x + attention(norm(x))    x = x + network(norm(x))

with a network ``outer(activation(inner(x)))``. Families differ in the names of these weights and of
the config's keys, and in what stands in front of the layers and behind them (`text`, `vision`,
`clip`, `whisper`, `wav2vec2`). Names are those of the files that are published, which transformers
still writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LayerNames:
    """Names of a layer's weights, behind ``{at}.{number}.``.

    Attributes
    ----------
    at : of the layers.
    query, key, value, output : matrices of the attention.
    inner, outer : matrices of the feed-forward network.
    first, second : norms, of the attention and of the network.
    norm_before : whether norms stand before what they are of, or behind it.
    key_bias : whether there is a bias of the keys.
    """

    at: str
    query: str
    key: str
    value: str
    output: str
    inner: str
    outer: str
    first: str
    second: str
    norm_before: bool = False
    key_bias: bool = True


@dataclass(frozen=True)
class Family:
    """An encoder's family.

    Attributes
    ----------
    prefixes : one of these stands before all names where the model was saved with a head, or as a
        part of another model.
    beside : a pattern of weights that may be stored and are no part of the encoder: its heads.
    layer : names of a layer's weights.
    keys : keys of the config that are others than BERT's: BERT's, then this family's.
    defaults : values of BERT's keys that are missing, where they are others than BERT's.
    fixed : values that are the same whatever the config says, by BERT's keys.
    harmless : values of keys that change what is computed, which are the only ones that we take.
    norms_before : a key that says whether norms stand before what they are of.
    parts : of a model of several encoders: the key of each one's config, and its family.
    """

    prefixes: tuple[str, ...]
    beside: str
    layer: LayerNames
    keys: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    fixed: Mapping[str, object] = field(default_factory=dict)
    harmless: Mapping[str, object] = field(default_factory=dict)
    norms_before: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)


_BERT = LayerNames(
    at="encoder.layer", query="attention.self.query", key="attention.self.key",
    value="attention.self.value", output="attention.output.dense", inner="intermediate.dense",
    outer="output.dense", first="attention.output.LayerNorm", second="output.LayerNorm",
)  # fmt: skip
_DISTILBERT = LayerNames(
    at="transformer.layer", query="attention.q_lin", key="attention.k_lin", value="attention.v_lin",
    output="attention.out_lin", inner="ffn.lin1", outer="ffn.lin2", first="sa_layer_norm",
    second="output_layer_norm",
)  # fmt: skip
_VIT = LayerNames(
    at="encoder.layer", query="attention.attention.query", key="attention.attention.key",
    value="attention.attention.value", output="attention.output.dense", inner="intermediate.dense",
    outer="output.dense", first="layernorm_before", second="layernorm_after", norm_before=True,
)  # fmt: skip
_CLIP = LayerNames(
    at="encoder.layers", query="self_attn.q_proj", key="self_attn.k_proj",
    value="self_attn.v_proj", output="self_attn.out_proj", inner="mlp.fc1", outer="mlp.fc2",
    first="layer_norm1", second="layer_norm2", norm_before=True,
)  # fmt: skip
_WHISPER = LayerNames(
    at="layers", query="self_attn.q_proj", key="self_attn.k_proj", value="self_attn.v_proj",
    output="self_attn.out_proj", inner="fc1", outer="fc2", first="self_attn_layer_norm",
    second="final_layer_norm", norm_before=True, key_bias=False,
)  # fmt: skip
_WAV2VEC2 = LayerNames(
    at="encoder.layers", query="attention.q_proj", key="attention.k_proj",
    value="attention.v_proj", output="attention.out_proj", inner="feed_forward.intermediate_dense",
    outer="feed_forward.output_dense", first="layer_norm", second="final_layer_norm",
)  # fmt: skip
# Decoders of the same name have masks and caches that an encoder has not.
_NO_DECODER = {
    "is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute",
}  # fmt: skip
_CLIP_DEFAULTS = {"layer_norm_eps": 1e-5, "hidden_act": "quick_gelu"}
_HEADS = r"classifier\..*|qa_outputs\..*|lm_head\..*"

FAMILIES: dict[str, Family] = {
    "bert": Family(("bert.",), rf"cls\..*|{_HEADS}", _BERT, harmless=_NO_DECODER),
    "roberta": Family(("roberta.",), _HEADS, _BERT, harmless=_NO_DECODER),
    "distilbert": Family(
        ("distilbert.",), rf"(vocab|pre)_.*|{_HEADS}", _DISTILBERT,
        keys={
            "hidden_size": "dim", "num_hidden_layers": "n_layers", "hidden_act": "activation",
            "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim",
        },
        defaults={"num_hidden_layers": 6},
        fixed={"layer_norm_eps": 1e-12},
    ),
    "vit": Family(
        ("vit.",), rf"{_HEADS}|decoder\..*|(vit\.)?embeddings\.mask_token", _VIT,
        harmless={"qkv_bias": True, "pooler_act": "tanh"},
    ),
    "clip_text_model": Family(
        ("text_model.",), "", _CLIP,
        defaults={
            **_CLIP_DEFAULTS, "hidden_size": 512, "intermediate_size": 2048,
            "num_attention_heads": 8,
        },
    ),
    "clip_vision_model": Family(("vision_model.",), "", _CLIP, defaults=_CLIP_DEFAULTS),
    "clip": Family(
        (), "", _CLIP,
        parts={"text_config": "clip_text_model", "vision_config": "clip_vision_model"},
    ),
    "whisper": Family(
        ("model.encoder.", "encoder."), r"(model\.)?decoder\..*|proj_out\..*", _WHISPER,
        keys={
            "hidden_size": "d_model", "num_hidden_layers": "encoder_layers",
            "num_attention_heads": "encoder_attention_heads", "hidden_act": "activation_function",
            "intermediate_size": "encoder_ffn_dim",
        },
        defaults={
            "hidden_size": 384, "num_hidden_layers": 4, "num_attention_heads": 6,
            "intermediate_size": 1536,
        },
        fixed={"layer_norm_eps": 1e-5},
    ),
    "wav2vec2": Family(
        ("wav2vec2.",),
        rf"{_HEADS}|(wav2vec2\.)?masked_spec_embed|(quantizer|project_hid|project_q|projector)\..*",
        _WAV2VEC2,
        defaults={"layer_norm_eps": 1e-5},
        harmless={"add_adapter": False, "adapter_attn_dim": None},
        norms_before="do_stable_layer_norm",
    ),
}  # fmt: skip
