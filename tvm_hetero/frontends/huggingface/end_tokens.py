"""Tokens that end a text: by ``generation_config.json``, ``config.json``, or the model's family.

The first of the two files that names any is believed. Where ``config.json`` has no such key, its
configuration in transformers has a default, without which a text would run on to its limit; null
says that there is none. (transformers 5 itself generates without the default, its ``config`` and
transformers 4 have it.)

A number that is no token of the vocabulary (-1, which converters write for "none") never comes, so
it ends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_hetero.errors import ModelError
from tvm_hetero.util.quote import quote

_KEY = "eos_token_id"
# Of the configurations in transformers (tests/frontends/huggingface/test_end_tokens.py asks them).
_DEFAULTS = {"gpt2": 50256, "llama": 2, "mistral": 2, "mixtral": 2}


def choose_end_tokens(
    family: str, config: Mapping[str, Any], generation: Mapping[str, Any], vocabulary: int
) -> tuple[int, ...]:
    """The tokens that end a text, in the order in which they are named, each once.

    Parameters
    ----------
    family : ``model_type`` of the model.
    config, generation : what the two files say; an empty mapping for one that is not there.
    vocabulary : how many tokens there are.

    Raises
    ------
    ModelError
        What is named is neither an integer nor a list of some.
    """
    named = generation.get(_KEY)
    if named is None:
        named = config.get(_KEY, _DEFAULTS.get(family))
    if named is None:
        return ()
    tokens = named if isinstance(named, list) else [named]
    if not all(type(token) is int for token in tokens):
        raise ModelError(
            f"{_KEY} is {quote(named, 60)}; expected a token's number, a list of some, or null"
        )
    return tuple(dict.fromkeys(token for token in tokens if 0 <= token < vocabulary))
