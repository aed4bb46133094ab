"""Chats, by OpenAI's client."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import openai
import pytest

from tvm_hetero.serve.text.folder import read_texts

EXAMPLE = Path(__file__).parents[3] / "examples" / "chat_on_two_machines" / "chat.py"
NODE_CLIENT = Path(__file__).parents[3] / "build" / "npm" / "node_modules" / "openai"
CHAT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "what is a dog?"}]


def say(client, messages=CHAT, most=10, **more):
    return client.chat.completions.create(
        model="chat", messages=messages, max_completion_tokens=most, temperature=0, **more
    )


def test_a_chat_is_the_completion_of_its_template(client, chat_model):
    texts = read_texts(chat_model)
    prompt = texts.chat.render(CHAT)
    plain = client.completions.create(
        model="chat", prompt=texts.tokenizer.encode(prompt, special=False), max_tokens=10,
        temperature=0,
    )  # fmt: skip
    answer = say(client)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == plain.choices[0].text
    assert answer.usage.prompt_tokens == plain.usage.prompt_tokens


def test_parts_of_a_message_are_lines(client):
    parts = [{"type": "text", "text": "what is"}, {"type": "text", "text": "a dog?"}]
    one = say(client, [{"role": "user", "content": parts}])
    assert one.choices == say(client, [{"role": "user", "content": "what is\na dog?"}]).choices


def test_a_stream_begins_with_the_role_and_ends_with_the_reason(client):
    whole = say(client, n=2, logprobs=True, top_logprobs=2)
    told, logprobs, roles, reasons = ["", ""], [[], []], [[], []], [[], []]
    with say(client, n=2, logprobs=True, top_logprobs=2, stream=True,
             stream_options={"include_usage": True}) as stream:  # fmt: skip
        chunks = list(stream)
    for chunk in chunks:
        for choice in chunk.choices:
            roles[choice.index].append(choice.delta.role)
            reasons[choice.index].append(choice.finish_reason)
            told[choice.index] += choice.delta.content or ""
            logprobs[choice.index] += choice.logprobs.content if choice.logprobs else []
    assert told == [choice.message.content for choice in whole.choices]
    assert logprobs == [choice.logprobs.content for choice in whole.choices]
    assert all(row[0] == "assistant" and not any(row[1:]) for row in roles)
    assert all(row[-1] == "length" and not any(row[:-1]) for row in reasons)
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 20


def test_each_token_has_its_bytes_and_its_likeliest_others(client, chat_model):
    answer = say(client, logprobs=True, top_logprobs=3)
    tokens = answer.choices[0].logprobs.content
    assert b"".join(bytes(each.bytes) for each in tokens).decode(errors="replace") == (
        answer.choices[0].message.content
    )
    for each in tokens:
        assert len(each.top_logprobs) == 3
        assert each.top_logprobs[0].logprob == each.logprob  # greedy
        assert each.logprob <= 0


def test_the_next_turn_begins_behind_the_last_ones_prompt(client):
    first = say(client, [{"role": "user", "content": "the lazy dog and the quick fox " * 3}])
    turns = [
        {"role": "user", "content": "the lazy dog and the quick fox " * 3},
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "and then?"},
    ]
    second = say(client, turns)
    assert second.usage.prompt_tokens_details.cached_tokens >= 16
    assert second.choices == say(client, turns).choices


@pytest.mark.skipif(
    not NODE_CLIENT.is_dir(),
    reason="npm's openai is not there: install node 20 and npm, then 'make node-clients'",
)
def test_openais_client_for_javascript_reads_the_same(chatting, client, tmp_path):
    script = Path(__file__).with_name("client.mjs")
    # Node looks for packages beside a script, and nowhere else.
    (tmp_path / "node_modules").symlink_to(NODE_CLIENT.parent)
    shutil.copy(script, tmp_path / "client.mjs")
    made = subprocess.run(
        ["node", "client.mjs", chatting.url], cwd=tmp_path, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    found = json.loads(made.stdout)
    answer = say(client, [{"role": "user", "content": "what is a dog?"}])
    content = answer.choices[0].message.content
    assert found["whole"] == found["told"] == content
    assert found["final"] == ["assistant", content]
    assert found["usage"]["completion_tokens"] == 10
    assert found["failure"] == ["NotFoundError", 404, "model_not_found", "model"]
    assert set(found["models"]) >= {"chat", "words"}
    assert len(found["texts"]) == 2
    assert found["logprobs"] == 10


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"extra_body": {"chat_template": "{{ 1 }}"}}, "chat_template"),
        ({"extra_body": {"chat_template_kwargs": {"tokenize": True}}}, "chat_template_kwargs"),
        ({"extra_body": {"documents": [{"a": 1}]}}, "documents"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_logprobs": 2}, "top_logprobs: only with"),
        ({"extra_body": {"no_such": 1}}, "there is no parameter 'no_such'"),
        ({"messages": []}, "messages is empty"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "expected texts"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}, "tool_calls"),
        ({"messages": [{"content": "hello"}]}, "role"),
    ],
)
def test_what_would_change_the_meaning_is_refused_by_name(client, more, message):
    with pytest.raises(openai.BadRequestError, match=message):
        say(client, **more)


def test_what_changes_nothing_is_left_aside(client):
    answer = say(
        client, user="me", metadata={"a": "b"}, store=False, tool_choice="none",
        response_format={"type": "text"}, service_tier="priority", parallel_tool_calls=True,
        extra_body={"min_p": 0, "repetition_penalty": 1.0},
    )  # fmt: skip
    assert answer.service_tier == "priority"
    assert answer.choices == say(client).choices


def test_the_example_needs_no_client_and_says_what_is_wrong(chatting):
    asked = [sys.executable, str(EXAMPLE), "--url", chatting.url, "--most", "8"]
    done = subprocess.run([*asked, "--say", "hi", "--say", "and?"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") >= 2
    wrong = subprocess.run(
        [*asked, "--say", "hi", "--model", "none"], capture_output=True, text=True
    )
    assert wrong.returncode == 1 and wrong.stderr.startswith("404: ")
    empty = ["--url", "http://127.0.0.1:9", "--patience", "0", "--say", "hi"]
    lost = subprocess.run([*asked[:2], *empty], capture_output=True, text=True)
    assert lost.returncode == 1 and "no server is ready at http://127.0.0.1:9" in lost.stderr
