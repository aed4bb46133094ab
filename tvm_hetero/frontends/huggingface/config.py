"""What ``config.json`` says about a decoder, in the same words for every family.

Keys that change what is computed are read, or refused by their name where we do not compute that
(`refuse_keys`). All others (initialisation, dropout, tokens of a tokenizer) do not matter to a
decoder that only runs. A key that is not there has the value that transformers gives it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_hetero.errors import FormatError, ModelError
from tvm_hetero.frontends.huggingface.end_tokens import choose_end_tokens
from tvm_hetero.frontends.huggingface.files import has_file, read_text
from tvm_hetero.frontends.huggingface.rotary import Rotary, read_rotary
from tvm_hetero.frontends.huggingface.values import read_flag, read_integer, read_number
from tvm_hetero.util.documents import parse_document
from tvm_hetero.util.untrusted_names import printable

CONFIG = "config.json"
GENERATION = "generation_config.json"
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
_MOST_BYTES = 16 * 1024 * 1024
# There are weights to look for, and tasks to make, for each of them.
MOST_LAYERS, _MOST_EXPERTS, _MOST_PARTS = 10_000, 10_000, 100_000


@dataclass(frozen=True)
class Config:
    """A decoder: what its family's graph is made of.

    Attributes
    ----------
    family : ``gpt2``, ``llama``, ``mistral``, ``mixtral`` or ``qwen2``.
    vocabulary, width, layers : tokens, numbers of a token between layers, layers.
    heads, kv_heads, size : heads of the attention, of its keys and values; numbers of a head.
    inner : hidden units of a feed-forward network, or of an expert.
    longest : the longest sequence that the model was made for, and that its attention sees whole.
    epsilon : of the norms.
    activation : one of `ACTIVATIONS`.
    scales : what each layer's attention multiplies its scores with.
    tied : whether the head is the table of embeddings.
    attention_bias, output_bias, inner_bias : whether there are biases of queries, keys and values;
        of what attention gives; of the feed-forward networks.
    rotary : positions as angles; None: as a learnt table.
    experts, chosen : experts of a layer (0: a plain network), and how many a token is given to.
    end : tokens that end a text.
    source : path and SHA-256 of the file.
    """

    family: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    size: int
    inner: int
    longest: int
    epsilon: float
    activation: str
    scales: tuple[float, ...]
    tied: bool
    attention_bias: bool
    output_bias: bool
    inner_bias: bool
    rotary: Rotary | None
    experts: int
    chosen: int
    end: tuple[int, ...]
    source: Mapping[str, str]


def read_config(folder: Path) -> Config:
    """Read a folder's ``config.json`` (and the tokens that end a text from beside it).

    Raises
    ------
    ModelError
        The file is missing or malformed, or describes a model that we do not compute.
    """
    data, source = load_config(folder)
    family = data.get("model_type")
    if not isinstance(family, str) or family not in DECODERS:
        raise ModelError(
            f"{printable(folder / CONFIG, 300)}: model_type is '{printable(family)}'; expected one "
            f"of {', '.join(DECODERS)}. Other decoders come in through torch.export"
        )
    try:
        refuse_keys(data, {"quantization_config": None, "is_encoder_decoder": False})
        values = DECODERS[family](data)
        if values["width"] * values["vocabulary"] >= 1 << 40:
            raise ModelError("vocabulary times width is absurd; expected fewer than 2^40 numbers")
        if values["layers"] * max(1, values["experts"]) > _MOST_PARTS:
            raise ModelError(f"layers times experts is absurd; expected at most {_MOST_PARTS}")
        end = choose_end_tokens(family, data, _generation(folder), values["vocabulary"])
        return Config(family=family, source=source, end=end, **values)
    except ModelError as error:
        raise ModelError(f"{printable(folder / CONFIG, 300)}: {error}") from None


def load_config(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """What a folder's ``config.json`` says, and its path and SHA-256.

    Raises
    ------
    ModelError
        The file is missing or malformed.
    """
    text = read_text(folder, CONFIG, _MOST_BYTES)
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return _document(text, folder / CONFIG), {"path": str(folder.absolute()), "sha256": digest}


def _document(text: str, path: Path) -> dict[str, Any]:
    try:
        return parse_document(text, printable(path, 300))
    except FormatError as error:
        raise ModelError(str(error)) from None


def _gpt2(data: Mapping[str, Any]) -> dict[str, Any]:
    refuse_keys(data, {"add_cross_attention": False})
    width, heads = read_integer(data, "n_embd", 768), read_integer(data, "n_head", 12)
    layers = read_integer(data, "n_layer", 12, MOST_LAYERS)
    size = divide(width, heads, "n_embd", "n_head")
    scale = size**-0.5 if read_flag(data, "scale_attn_weights", True) else 1.0
    by_layer = read_flag(data, "scale_attn_by_inverse_layer_idx", False)
    return {
        "vocabulary": read_integer(data, "vocab_size", 50257),
        "width": width,
        "layers": layers,
        "heads": heads,
        "kv_heads": heads,
        "size": size,
        "inner": read_integer(data, "n_inner", 4 * width),
        "longest": read_integer(data, "n_positions", 1024),
        "epsilon": read_number(data, "layer_norm_epsilon", 1e-5),
        "activation": _activation(data, "activation_function", "gelu_new"),
        "scales": tuple(scale / (i + 1 if by_layer else 1) for i in range(layers)),
        "tied": read_flag(data, "tie_word_embeddings", True),
        "attention_bias": True,
        "output_bias": True,
        "inner_bias": True,
        "rotary": None,
        "experts": 0,
        "chosen": 0,
    }


def _llama(data: Mapping[str, Any]) -> dict[str, Any]:
    bias = read_flag(data, "attention_bias", False)
    return {
        **_rotated(data),
        "attention_bias": bias,
        "output_bias": bias,
        "inner_bias": read_flag(data, "mlp_bias", False),
    }


def _mistral(data: Mapping[str, Any]) -> dict[str, Any]:
    return _rotated({**_MISTRAL, **data})


def _qwen2(data: Mapping[str, Any]) -> dict[str, Any]:
    if not read_flag(data, "use_sliding_window", False):
        data = {**data, "sliding_window": None}
    return {**_rotated({**_QWEN2, **data}), "attention_bias": True}


def _mixtral(data: Mapping[str, Any]) -> dict[str, Any]:
    experts = read_integer(data, "num_local_experts", 8, _MOST_EXPERTS)
    chosen = read_integer(data, "num_experts_per_tok", 2)
    if chosen > experts:
        raise ModelError(f"num_experts_per_tok is {chosen}, but there are {experts} experts")
    return {**_rotated({**_MIXTRAL, **data}), "experts": experts, "chosen": chosen}


# What these families take for a key that is not there; where it is Llama's, `_rotated` knows it.
_MISTRAL = {
    "intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "sliding_window": 4096,
}  # fmt: skip
_MIXTRAL = {**_MISTRAL, "sliding_window": None, "rms_norm_eps": 1e-5, "rope_theta": 1e6}
_QWEN2 = {"vocab_size": 151936, "intermediate_size": 22016, "max_position_embeddings": 32768}


def _rotated(data: Mapping[str, Any]) -> dict[str, Any]:
    """What Llama and those after it have in common, without biases and experts."""
    width, heads = (
        read_integer(data, "hidden_size", 4096),
        read_integer(data, "num_attention_heads", 32),
    )
    layers = read_integer(data, "num_hidden_layers", 32, MOST_LAYERS)
    kv_heads = read_integer(data, "num_key_value_heads", heads)
    divide(heads, kv_heads, "num_attention_heads", "num_key_value_heads")
    size = (
        divide(width, heads, "hidden_size", "num_attention_heads")
        if data.get("head_dim") is None
        else read_integer(data, "head_dim", 0)
    )
    if size % 2:
        raise ModelError(f"heads of {size} numbers cannot be rotated in pairs; expected even ones")
    longest = read_integer(data, "max_position_embeddings", 2048)
    return {
        "vocabulary": read_integer(data, "vocab_size", 32000),
        "width": width,
        "layers": layers,
        "heads": heads,
        "kv_heads": kv_heads,
        "size": size,
        "inner": read_integer(data, "intermediate_size", 11008),
        # Within its window attention that slides reads all there is, as ours does.
        "longest": min(longest, read_integer(data, "sliding_window", longest)),
        "epsilon": read_number(data, "rms_norm_eps", 1e-6),
        "activation": _activation(data, "hidden_act", "silu"),
        "scales": (size**-0.5,) * layers,
        "tied": read_flag(data, "tie_word_embeddings", False),
        "attention_bias": False,
        "output_bias": False,
        "inner_bias": False,
        "rotary": read_rotary(data, size),
        "experts": 0,
        "chosen": 0,
    }


DECODERS = {
    "gpt2": _gpt2, "llama": _llama, "mistral": _mistral, "mixtral": _mixtral, "qwen2": _qwen2,
}  # fmt: skip


def refuse_keys(data: Mapping[str, Any], allowed: Mapping[str, Any]) -> None:
    """Refuse keys whose value is anything but the one that changes nothing.

    Raises
    ------
    ModelError
        If there is such a key.
    """
    for key, harmless in allowed.items():
        value = data.get(key, harmless)
        if value is not None and value != harmless:
            raise ModelError(
                f"{key} is {printable(value)}, which is not supported; expected "
                f"{'nothing' if harmless is None else harmless}"
            )


def divide(one: int, other: int, name: str, by: str) -> int:
    """How often ``other`` goes into ``one``.

    Raises
    ------
    ModelError
        It does not go without a rest.
    """
    if one % other:
        raise ModelError(f"{name} ({one}) is no multiple of {by} ({other})")
    return one // other


def _activation(data: Mapping[str, Any], key: str, default: str) -> str:
    value = data.get(key, default)
    if value not in ACTIVATIONS:
        raise ModelError(f"{key} is '{printable(value)}'; expected one of {', '.join(ACTIVATIONS)}")
    return str(value)


def _generation(folder: Path) -> Mapping[str, Any]:
    """The settings for generation; empty if there are none."""
    if not has_file(folder, GENERATION):
        return {}
    return _document(read_text(folder, GENERATION, _MOST_BYTES), folder / GENERATION)
