"""Tokens that end a text: as transformers reads them, and none that never comes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.small_decoders import CONFIGS, tiny
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.huggingface import read_config

_VOCABULARY = 96


def ends(folder: Path, config: dict[str, Any], generation: dict[str, Any] | None = None) -> Any:
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").unlink(missing_ok=True)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return read_config(folder).end


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize(
    "given", [{}, *({"eos_token_id": v} for v in (None, -1, [2, -1], [5], [], 7, 500, [2, 2]))]
)
def test_they_are_those_of_the_configuration_in_transformers(family, given, tmp_path):
    import transformers

    config = {k: v for k, v in CONFIGS[family].items() if k != "eos_token_id"} | given
    for size in (_VOCABULARY, 60_000):  # GPT-2's own is 50256
        config["vocab_size"] = size
        ours = ends(tmp_path, config)
        theirs = transformers.AutoConfig.from_pretrained(tmp_path).eos_token_id
        listed = theirs if isinstance(theirs, list) else [] if theirs is None else [theirs]
        assert ours == tuple(dict.fromkeys(each for each in listed if 0 <= each < size))


@pytest.mark.parametrize("given", ["x", 2.0, True, [[1]], ["a"], {"a": 1}])
def test_what_transformers_refuses_is_refused(given, tmp_path):
    import transformers

    with pytest.raises(ModelError, match=r"eos_token_id is .*; expected a token's number, a list"):
        ends(tmp_path, {**CONFIGS["llama"], "eos_token_id": given})
    with pytest.raises(Exception, match="eos_token_id"):
        transformers.AutoConfig.from_pretrained(tmp_path)


def test_settings_for_generation_come_first_if_they_name_any(tmp_path):
    config = json.loads((tiny("gpt2", tmp_path) / "config.json").read_text())
    assert ends(tmp_path, config) == (95,)
    assert ends(tmp_path, config, {"eos_token_id": [7, 8]}) == (7, 8)
    assert ends(tmp_path, config, {"eos_token_id": -1}) == ()
    assert ends(tmp_path, config, {"eos_token_id": None}) == (95,)
    assert ends(tmp_path, config, {}) == (95,)
    with pytest.raises(ModelError, match="eos_token_id is 'x'"):
        ends(tmp_path, config, {"eos_token_id": "x"})
