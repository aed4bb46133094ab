"""What is refused, and how OpenAI's client is told."""

from __future__ import annotations

import http.client
import json
import random

import openai
import pytest


def test_models_are_listed_and_found(client, chat_model):
    listed = {model.id: model for model in client.models.list()}
    assert {"chat", "words"} <= listed.keys()
    found = client.models.retrieve("chat")
    assert (found.object, found.owned_by, found.max_model_len) == ("model", "tvm_hetero", 192)
    assert found.created == int(chat_model.stat().st_mtime)
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-9")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("more", "param", "code"),
    [
        ({"temperature": 3}, "temperature", None),
        ({"top_p": 0}, "top_p", None),
        ({"n": 0}, "n", None),
        ({"n": 17}, "n", None),
        ({"logprobs": 21}, "logprobs", None),
        ({"max_tokens": 0}, "max_tokens", None),
        ({"max_tokens": 500}, "max_tokens", "context_length_exceeded"),
        ({"prompt": "the dog " * 400}, "max_tokens", "context_length_exceeded"),
        ({"prompt": "a" * 100_000}, "prompt", "context_length_exceeded"),
        ({"prompt": [1] * 3000}, "prompt", "context_length_exceeded"),
        ({"prompt": [1, 9999]}, "prompt", None),
        ({"prompt": []}, "prompt", None),
        ({"prompt": ["a", 1]}, "prompt", None),
        ({"stop": ["x"] * 17}, "stop", None),
        ({"stop": ""}, "stop", None),
        ({"frequency_penalty": 3}, "frequency_penalty", None),
        ({"logit_bias": {"9999": 1}}, "logit_bias", None),
        ({"logit_bias": {"x": 1}}, "logit_bias", None),
        ({"stream_options": {"include_usage": True}}, "stream_options", None),
        ({"best_of": 2}, "best_of", "unsupported_parameter"),
        ({"suffix": "end"}, "suffix", "unsupported_parameter"),
        ({"extra_body": {"timeout": -1}}, "timeout", None),
        ({"extra_body": {"timeout": "1"}}, "timeout", None),
        ({"extra_body": {"stop_token_ids": [320]}}, "stop_token_ids", None),
        ({"extra_body": {"guided_json": {"a": 1}}}, "guided_json", "unsupported_parameter"),
        ({"extra_body": {"max_tokenz": 1}}, "'max_tokenz'", "unknown_parameter"),
        ({"model": "branchy"}, "model", "model_not_supported"),
    ],
)
def test_a_wrong_field_is_named(client, more, param, code):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**{"model": "chat", "prompt": "x", "max_tokens": 2, **more})
    assert caught.value.param == param
    assert caught.value.code == code
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is no JSON"),
        (b"{", "is no JSON"),
        (b"[]", "expected an object"),
        (b'{"model": "chat", "prompt": NaN}', "is no JSON"),
        (b'{"model": "chat", "prompt": "\xff"}', "is no JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"prompt": "x"}', "required field `model`"),
        (b'{"model": "chat", "prompt": "x", "max_tokens": "2"}', "Expected `int | null`"),
        (b'{"model": "chat", "prompt": "x", "max_tokens": 1e99}', "`int | null`, got `float`"),
    ],
)
def test_a_body_that_is_no_request_is_refused(chatting, body, words):
    reply = chatting.post("/v1/completions", body)
    assert reply.status == 400
    assert words in reply.json["error"]["message"]
    assert reply.json["error"]["type"] == "invalid_request_error"


def test_what_is_not_there_is_said_in_the_same_form(chatting):
    for method, path, status in (("GET", "/v1/x", 404), ("GET", "/v1/completions", 405)):
        reply = chatting.send(method, path, None, None)
        assert reply.status == status
        assert reply.json["error"].keys() == {"message", "type", "param", "code"}


def test_a_large_body_is_refused_before_it_is_read(chatting):
    connection = http.client.HTTPConnection(chatting.url.removeprefix("http://"), timeout=60)
    connection.putrequest("POST", "/v1/completions")
    connection.putheader("Content-Length", "9000000")
    connection.endheaders()  # and no body
    reply = connection.getresponse()
    assert reply.status == 413
    assert json.loads(reply.read())["error"]["code"] == "too_large"
    connection.close()


def test_texts_become_tokens_and_come_back(chatting):
    told = chatting.post("/tokenize", {"model": "chat", "prompt": "the dog é"}).json
    assert told["count"] == len(told["tokens"])
    assert told["max_model_len"] == 192
    back = chatting.post("/detokenize", {"model": "chat", "tokens": told["tokens"]})
    assert back.json == {"prompt": "the dog é"}
    chat = [{"role": "user", "content": "hello"}]
    assert chatting.post("/tokenize", {"model": "chat", "messages": chat}).json["tokens"][0] == 2
    assert chatting.post("/tokenize", {"model": "chat"}).status == 400
    assert "2 decoders" in chatting.post("/tokenize", {"prompt": "x"}).json["error"]["message"]
    info = chatting.get("/tokenizer_info?model=chat").json
    assert (info["bos_token"], info["eos_token"]) == ("<s>", "<|im_end|>")
    assert "messages" in info["chat_template"]
    assert chatting.post("/detokenize", {"model": "words", "tokens": [1]}).status == 400


def test_numbers_of_thousands_of_digits_are_told_to_be_none(chatting):
    body = {"model": "chat", "prompt": "x", "max_tokens": 1}
    digits = "9" * 5000
    late = chatting.post("/v1/completions", body, {"tvm-hetero-timeout-us": digits[:400]})
    assert (late.status, late.json["error"]["type"]) == (400, "invalid_request_error")
    biased = chatting.post("/v1/completions", {**body, "logit_bias": {digits: 1}})
    assert (biased.status, biased.json["error"]["param"]) == (400, "logit_bias")


FIELDS = (
    "prompt", "messages", "max_tokens", "temperature", "top_p", "top_k", "n", "stream", "stop",
    "stream_options", "stop_token_ids", "ignore_eos", "seed", "frequency_penalty", "logit_bias",
    "service_tier", "timeout", "return_token_ids", "logprobs", "echo", "top_logprobs", "tools",
    "max_completion_tokens", "user", "suffix", "input", "tokens", "model", "no_such",
)  # fmt: skip
VALUES = (
    None, True, 0, 1, -1, 10**30, 0.5, 1e308, 5e-324, "", "x", "\ud800", "a\x00b", "x" * 5000, [],
    [1, 2, 3], ["a"], [[1], [2]], [[]], [""], [10**20], [1, "a"], {}, {"a": 1}, {"1": 2},
    {"-1": 1}, {"include_usage": True}, "priority", [{"role": "user", "content": "<|im_end|>"}],
    [{"role": "\ud800", "content": "x"}], [{"role": 1}], [{}], [None],
    [{"role": "user", "content": [{"type": "text"}]}], [{"role": "user", "content": [1]}],
)  # fmt: skip
ROUTES = {
    "/v1/completions": {"prompt": "x", "max_tokens": 1},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1},
    "/v1/embeddings": {"input": "x"}, "/tokenize": {"prompt": "x"}, "/detokenize": {"tokens": [1]},
}  # fmt: skip


def test_no_body_is_a_fault_of_the_server(chatting):
    drawn = random.Random(0)
    connection = http.client.HTTPConnection(chatting.url.removeprefix("http://"), timeout=60)
    seen = set()
    for _ in range(250):
        path = drawn.choice(list(ROUTES))
        body = {"model": "chat", **ROUTES[path]}
        for name in drawn.sample(FIELDS, drawn.randint(0, 2)):
            body[name] = drawn.choice(VALUES)
        connection.request("POST", path, json.dumps(body).encode())
        reply = connection.getresponse()
        told = reply.read()
        assert reply.status in (200, 400, 404, 503, 504), (path, body, told)
        assert reply.status in (200, 503, 504) or json.loads(told)["error"]["message"]
        seen.add((path, reply.status))
    connection.close()
    assert {(path, 400) for path in ROUTES} <= seen
    assert {(path, 200) for path in ROUTES} - {("/v1/embeddings", 200)} <= seen
