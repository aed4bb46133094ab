"""What ``config.json`` says about an encoder, in the same words for every family.

BERT's words: a family says which of its own stand for them. What only one family has it reads
itself, from `EncoderConfig.data`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.huggingface import config as decoders
from tvm_hetero.frontends.huggingface.encoders.families import FAMILIES, Family
from tvm_hetero.frontends.huggingface.values import read_flag, read_integer, read_number
from tvm_hetero.util.untrusted_names import printable

ACTIVATIONS = (*decoders.ACTIVATIONS, "quick_gelu", "gelu_python", "gelu_fast")
_DEFAULTS = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
}  # fmt: skip


@dataclass(frozen=True)
class EncoderConfig:
    """An encoder: what the graph of its layers is made of.

    Attributes
    ----------
    name : the family's, which is the config's ``model_type``.
    family : names of its weights.
    width, layers, heads, inner : numbers of a token between layers, layers, heads of the
        attention, hidden units of the feed-forward network.
    epsilon : of the norms.
    activation : one of `ACTIVATIONS`.
    data : the whole config, for what only this family has.
    source : path and SHA-256 of the file.
    parts : encoders that the model consists of, by their families; it has no layers itself then,
        and what is said of them is of the first part.
    """

    name: str
    family: Family
    width: int
    layers: int
    heads: int
    inner: int
    epsilon: float
    activation: str
    data: Mapping[str, Any]
    source: Mapping[str, str]
    parts: Mapping[str, EncoderConfig] = field(default_factory=dict)


def is_encoder(folder: Path) -> bool:
    """Whether a folder is an encoder's, and no decoder's.

    Raises
    ------
    ModelError
        It has no config, or is of a model that is neither.
    """
    data, _ = decoders.load_config(folder)
    kind = data.get("model_type")
    if isinstance(kind, str) and kind in FAMILIES:
        return True
    if isinstance(kind, str) and kind in decoders.DECODERS:
        return False
    raise ModelError(_unknown(folder, kind))


def read_encoder(folder: Path) -> EncoderConfig:
    """Read a folder's ``config.json``.

    Raises
    ------
    ModelError
        The file is missing or malformed, or describes a model that we do not compute.
    """
    data, source = decoders.load_config(folder)
    name = data.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        raise ModelError(_unknown(folder, name))
    try:
        return _checked(name, data, source)
    except ModelError as error:
        raise ModelError(f"{printable(folder / decoders.CONFIG, 300)}: {error}") from None


def _checked(name: str, data: Mapping[str, Any], source: Mapping[str, str]) -> EncoderConfig:
    family = FAMILIES[name]
    decoders.refuse_keys(data, {"quantization_config": None, **family.harmless})
    if family.parts:
        parts = {
            kind: _checked(kind, _part(data, key), source) for key, kind in family.parts.items()
        }
        first = next(iter(parts.values()))
        return replace(first, name=name, family=family, data=data, parts=parts)
    if family.norms_before is not None and read_flag(data, family.norms_before, False):
        family = replace(family, layer=replace(family.layer, norm_before=True))
    usual: dict[str, Any] = {**_DEFAULTS, **family.defaults}
    keys = {key: family.keys.get(key, key) for key in usual}
    width, layers, heads, inner = (
        read_integer(data, keys[key], usual[key], most)
        for key, most in (
            ("hidden_size", 1 << 20), ("num_hidden_layers", decoders.MOST_LAYERS),
            ("num_attention_heads", 1 << 20), ("intermediate_size", 1 << 24),
        )
    )  # fmt: skip
    decoders.divide(width, heads, keys["hidden_size"], keys["num_attention_heads"])
    activation = data.get(keys["hidden_act"], usual["hidden_act"])
    if activation not in ACTIVATIONS:
        raise ModelError(
            f"{keys['hidden_act']} is '{printable(activation)}'; expected one of "
            f"{', '.join(ACTIVATIONS)}"
        )
    epsilon = read_number(
        family.fixed or data, keys["layer_norm_eps"], float(usual["layer_norm_eps"])
    )
    return EncoderConfig(
        name, family, width, layers, heads, inner, epsilon, activation, data, source
    )


def _part(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The config of a part; an older ``..._dict`` beside it stands for all of it."""
    old = data.get(f"{key}_dict")
    found = data.get(key) if old is None else old
    if not isinstance(found, dict):
        raise ModelError(f"{key} is {printable(repr(found), 100)}; expected the config of a part")
    return found


def _unknown(folder: Path, kind: object) -> str:
    if isinstance(kind, str) and kind in decoders.DECODERS:
        return (
            f"{printable(folder, 300)}: is the folder of a decoder ({kind}), and an encoder is "
            "expected here; decoders come in by 'tvm-hetero partition FOLDER' and from_huggingface"
        )
    return (
        f"{printable(folder / decoders.CONFIG, 300)}: model_type is '{printable(kind)}'; expected "
        f"an encoder ({', '.join(FAMILIES)}) or a decoder ({', '.join(decoders.DECODERS)}). "
        "Export other models to ONNX"
    )
