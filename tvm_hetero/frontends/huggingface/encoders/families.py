"""What an encoder's family is, as far as it differs from others in words and not in arithmetic.

A layer is one of two:

    norm behind    x = norm(x + attention(x))    x = norm(x + network(x))
    norm before    x = x + attention(norm(x))    x = x + network(norm(x))

with a network ``outer(activation(inner(x)))``. Families differ in the names of these weights and of
the config's keys, and in what stands in front of the layers and behind them (`text`, `vision`,
`audio`). Names are those of the files that are published, which transformers still writes.
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
    prefix : of all names where the model was saved with a head, or as a part of another model.
    beside : a pattern of weights that may be stored and are no part of the encoder: its heads.
    layer : names of a layer's weights.
    keys : keys of the config that are others than BERT's: BERT's, then this family's.
    defaults : values of BERT's keys that are missing, where they are others than BERT's.
    harmless : values of keys that change what is computed, which are the only ones that we take.
    """

    prefix: str
    beside: str
    layer: LayerNames
    keys: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    harmless: Mapping[str, object] = field(default_factory=dict)


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
# Decoders of the same name have masks and caches that an encoder has not.
_NO_DECODER = {
    "is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute",
}  # fmt: skip

FAMILIES: dict[str, Family] = {
    "bert": Family("bert.", r"cls\..*|classifier\..*|qa_outputs\..*", _BERT, harmless=_NO_DECODER),
    "roberta": Family(
        "roberta.", r"lm_head\..*|classifier\..*|qa_outputs\..*", _BERT,
        defaults={"vocab_size": 50265}, harmless=_NO_DECODER,
    ),
    "distilbert": Family(
        "distilbert.", r"(vocab|pre)_.*|classifier\..*|qa_outputs\..*", _DISTILBERT,
        keys={
            "hidden_size": "dim", "num_hidden_layers": "n_layers", "hidden_act": "activation",
            "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim",
        },
        defaults={"num_hidden_layers": 6},
    ),
}  # fmt: skip
