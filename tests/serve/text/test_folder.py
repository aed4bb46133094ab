"""Chat templates, and what else a folder says of texts."""

from __future__ import annotations

import json

import pytest
from transformers import PreTrainedTokenizerFast

from tests.serve.small_tokenizer import TEMPLATE, write_texts
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.serve.text.chat_template import ChatTemplate
from tvm_hetero.serve.text.folder import read_texts

CHAT = [
    {"role": "system", "content": "be <brief>"},
    {"role": "user", "content": "what is it?\n"},
]


def test_a_chat_is_the_text_that_transformers_makes(tmp_path):
    write_texts(tmp_path)
    texts = read_texts(tmp_path)
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    expected = theirs.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    assert texts.chat.render(CHAT) == expected
    assert texts.stop == {3}
    assert texts.tokenizer.encode(expected, special=False) == list(
        theirs(expected, add_special_tokens=False)["input_ids"]
    )


def test_templates_may_use_what_those_of_transformers_may():
    source = (
        "{{ bos_token }}{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}"
        "{% generation %}{{ {'a': m.content} | tojson }}{% endgeneration %}{% endfor %}"
    )
    assert ChatTemplate(source, {"bos_token": "<s>"}).render(CHAT) == '<s>{"a": "be <brief>"}'


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no system') }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages[9].content.nothing }}",
        "{{ range(10000000) | list }}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{{ 1 // 0 }}",
        "{{ 1e999 + messages | length }}",
    ],
)
def test_a_template_can_refuse_but_change_or_reach_nothing(source):
    with pytest.raises(UsageError, match="chat template refuses"):
        ChatTemplate(source, {}).render(CHAT)


def test_a_template_stands_in_a_file_of_its_own_or_among_several(tmp_path):
    write_texts(tmp_path, template=None)
    assert read_texts(tmp_path).chat is None
    named = [{"name": "tools", "template": "x"}, {"name": "default", "template": TEMPLATE}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert "be <brief>" in read_texts(tmp_path).chat.render(CHAT)
    (tmp_path / "chat_template.jinja").write_text("{{ messages | length }}")
    assert read_texts(tmp_path).chat.render(CHAT) == "2"
    (tmp_path / "chat_template.jinja").write_text("{% for %}")
    with pytest.raises(ModelError, match="cannot be read"):
        read_texts(tmp_path)


@pytest.mark.parametrize("source", ["{{" + "[" * 9000, "{{ '{' " + "+'a'" * 9000 + "}}"])
def test_a_template_that_is_too_deep_is_none(source):
    with pytest.raises(ModelError, match="chat template cannot be read"):
        ChatTemplate(source, {})


def test_half_a_character_is_no_text(tmp_path):
    write_texts(tmp_path)
    tokenizer = read_texts(tmp_path).tokenizer
    with pytest.raises(UsageError, match=r"'a\\udcff' has half a character"):
        tokenizer.encode("a\udcff")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "\ud800"}))
    with pytest.raises(ModelError, match="bos_token has half a character"):
        read_texts(tmp_path)


def test_a_folder_without_a_tokenizer_has_no_texts(tmp_path):
    assert read_texts(tmp_path) is None
