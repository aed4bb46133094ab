"""Text out of tokens as they come: the same text, and never half a character."""

from __future__ import annotations

import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
import tokenizers
from hypothesis import given, settings
from tokenizers import decoders, models, pre_tokenizers

from tests.draws import draws
from tests.serve.small_tokenizer import VOCABULARY, make_tokenizer
from tvm_hetero.errors import ModelError
from tvm_hetero.serve.text.detokenizer import HALF, Detokenizer
from tvm_hetero.serve.text.tokenizer import TextTokenizer


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    return saved(make_tokenizer(), tmp_path_factory.mktemp("byte") / "tokenizer.json")


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> TextTokenizer:
    """As Llama 2 has it: words begin with a mark, and unknown letters are bytes."""
    names = ["<unk>", "▁", "▁hello", "▁world", "s", ",", *(f"<0x{b:02X}>" for b in range(256))]
    made = tokenizers.Tokenizer(
        models.BPE({name: n for n, name in enumerate(names)}, [], unk_token="<unk>",
                   byte_fallback=True)
    )  # fmt: skip
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)]
    )  # fmt: skip
    return saved(made, tmp_path_factory.mktemp("sentences") / "tokenizer.json")


def saved(tokenizer: tokenizers.Tokenizer, path: Path) -> TextTokenizer:
    tokenizer.save(str(path))
    return TextTokenizer(path)


def pieces(tokenizer: TextTokenizer, tokens: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*map(detokenizer.push, tokens), detokenizer.finish()]


@settings(max_examples=draws(200), deadline=None)
@given(st.text(max_size=30))
def test_a_text_comes_back_with_no_half_of_a_character(byte_level, text):
    told = pieces(byte_level, byte_level.encode(text))
    assert "".join(told) == text
    assert HALF in text or not any(HALF in each for each in told)


@settings(max_examples=draws(200), deadline=None)
@given(st.lists(st.integers(0, VOCABULARY - 1), max_size=30))
def test_any_tokens_give_the_text_that_they_give_together(byte_level, tokens):
    assert "".join(pieces(byte_level, tokens)) == byte_level.decode(tokens)


@settings(max_examples=draws(200), deadline=None)
@given(st.lists(st.sampled_from(["hello ", "worlds", ",", "é", "你", "🎉", " "]), max_size=8))
def test_words_with_marks_and_bytes_come_back(sentences, words):
    tokens = sentences.encode("".join(words))
    told = pieces(sentences, tokens)
    assert "".join(told) == sentences.decode(tokens)
    assert not any(HALF in each for each in told)


def test_a_character_of_several_tokens_comes_with_its_last(byte_level):
    tokens = byte_level.encode("a€b", special=False)
    assert pieces(byte_level, tokens) == ["a", "", "", "€", "b", ""]


def test_the_bytes_of_tokens_are_those_of_the_text(byte_level, sentences):
    for text in ("naïve café, 你好 🎉", "plain words\n"):
        tokens = byte_level.encode(text, special=False)
        assert b"".join(map(byte_level.bytes_of, tokens)) == text.encode()
    assert byte_level.label(byte_level.encode("€", special=False)[0]) == "bytes:\\xe2"
    assert byte_level.label(1) == "</s>"
    tokens = sentences.encode("hello é")
    assert b"".join(map(sentences.bytes_of, tokens)) == " hello é".encode()


def test_a_tokenizer_that_cuts_or_pads_does_so_no_more(tmp_path):
    made = make_tokenizer()
    made.enable_truncation(4)
    made.enable_padding(length=8)
    assert len(saved(made, tmp_path / "tokenizer.json").encode("the dog " * 20)) > 20


def test_a_first_token_that_the_text_has_already_is_found(byte_level):
    for text, twice in (("<s>the dog", "<s>"), ("<s><s>a", "<s>"), ("the dog", None), ("", None)):
        assert byte_level.find_doubled_start(text, byte_level.encode(text)) == twice
    plain = byte_level.encode("<s><s>a", special=False)  # its own doing
    assert byte_level.find_doubled_start("<s><s>a", plain) is None


def test_what_is_no_tokenizer_is_refused_without_its_path(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"^tokenizer\.json is no tokenizer"):
        TextTokenizer(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("break_it", ["special_tokens", "vocab"])
def test_a_tokenizer_that_cannot_encode_is_refused_without_a_panic(tmp_path, break_it):
    made = json.loads(make_tokenizer().to_str())
    if break_it == "special_tokens":  # the template names one that is not there: Rust panics
        made["post_processor"]["special_tokens"] = {}
    else:
        made["model"] = {"type": "WordLevel", "vocab": {"the": 0}, "unk_token": "<unk>"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(made))
    with pytest.raises(ModelError, match=r"^tokenizer\.json is no tokenizer"):
        TextTokenizer(tmp_path / "tokenizer.json").encode("a dog")
