"""Completions, by OpenAI's client: the tokens that `Decoder.generate` gives, and all about them."""

from __future__ import annotations

import json
import math
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openai
import pytest

from tests.serve.in_process import serving
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.generation.logprobs import score_token
from tvm_hetero.serve.text.folder import read_texts

LM_EVAL = Path(__file__).parents[3] / "build" / "lm_eval" / "bin" / "python"
PROMPTS = ["the quick brown", "a server answers", "naïve café 🎉", "x"]


@pytest.fixture(scope="module")
def texts(chat_model):
    return read_texts(chat_model)


@pytest.fixture(scope="module")
def decoder(chat_model):
    with Decoder.load(chat_model) as loaded:
        yield loaded


@pytest.mark.skipif(
    not LM_EVAL.exists(), reason="lm-eval is not there: 'make lm-eval' puts it into build/lm_eval"
)
def test_lm_eval_finds_the_likelihoods_of_the_model(chat_model, texts, decoder):
    """It has an environment of its own, since it wants many packages."""
    pairs = [["the quick brown", " fox"], ["a server", " answers what"], ["", "the dog"]]
    script = Path(__file__).with_name("lm_eval_client.py")
    with serving({"chat": chat_model}) as server:
        made = subprocess.run(
            [LM_EVAL, script, server.url, json.dumps(pairs)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    found = json.loads(made.stdout.splitlines()[-1])
    for (context, rest), (logprob, is_greedy) in zip(pairs, found["likelihoods"], strict=True):
        whole = texts.tokenizer.encode(context + rest, special=False)
        before = len(texts.tokenizer.encode(context, special=False))
        if not context:
            whole, before = [3, *whole], 1  # it begins with the end of a text
        rows = logits_of(decoder, whole)
        scored = [score_token(rows[p - 1], whole[p], 1) for p in range(before, len(whole))]
        assert logprob == pytest.approx(sum(each.logprob for each in scored), abs=1e-3)
        assert is_greedy == all(each.token == each.top[0][0] for each in scored)
    prompt = texts.tokenizer.encode("the lazy", special=False)
    (expected,) = decoder.generate([prompt], 8, stop=(1, 3))
    assert found["text"] == texts.tokenizer.decode(expected.tokens)


def greedy(client, prompt, most=12, **more):
    extra = {"return_token_ids": True, **more.pop("extra_body", {})}
    return client.completions.create(
        model="chat", prompt=prompt, max_tokens=most, temperature=0, extra_body=extra, **more
    )


def test_greedy_texts_are_those_of_the_decoder(client, decoder, texts):
    prompts = [texts.tokenizer.encode(prompt) for prompt in PROMPTS]
    expected = decoder.generate(prompts, 12, stop=(1, 3))
    answer = greedy(client, PROMPTS)
    assert [choice.token_ids for choice in answer.choices] == [each.tokens for each in expected]
    for choice, each in zip(answer.choices, expected, strict=True):
        assert choice.finish_reason == {"limit": "length", "stop": "stop"}[each.reason]
        shown = each.tokens[:-1] if each.reason == "stop" else each.tokens
        assert choice.text == texts.tokenizer.decode(shown)
    assert answer.usage.prompt_tokens == sum(map(len, prompts))
    assert answer.usage.completion_tokens == sum(len(each.tokens) for each in expected)


def test_prompts_may_be_tokens_and_lists_of_them(client, texts):
    given = [texts.tokenizer.encode(prompt) for prompt in PROMPTS[:2]]
    as_text = [choice.text for choice in greedy(client, PROMPTS[:2]).choices]
    assert [choice.text for choice in greedy(client, given).choices] == as_text
    assert greedy(client, given[0]).choices[0].text == as_text[0]


def test_a_stream_says_what_the_whole_answer_says(client):
    whole = greedy(client, PROMPTS, 20, logprobs=2)
    told, finished, ids = [""] * 4, [None] * 4, [[] for _ in PROMPTS]
    logprobs = [[] for _ in PROMPTS]
    usages = []
    for chunk in greedy(client, PROMPTS, 20, logprobs=2, stream=True,
                        stream_options={"include_usage": True}):  # fmt: skip
        usages.append(chunk.usage)
        for choice in chunk.choices:
            assert finished[choice.index] is None
            told[choice.index] += choice.text
            finished[choice.index] = choice.finish_reason
            ids[choice.index] += choice.token_ids
            logprobs[choice.index] += choice.logprobs.token_logprobs
    assert told == [choice.text for choice in whole.choices]
    assert ids == [choice.token_ids for choice in whole.choices]
    assert finished == [choice.finish_reason for choice in whole.choices]
    assert logprobs == [choice.logprobs.token_logprobs for choice in whole.choices]
    assert usages[:-1] == [None] * (len(usages) - 1)
    assert usages[-1].completion_tokens == whole.usage.completion_tokens


def test_stop_texts_end_a_text_across_tokens_and_are_not_told(client, chatting):
    whole = greedy(client, PROMPTS[0], 24).choices[0].text
    stop = whole[5:9]
    place = whole.index(stop)
    cut = greedy(client, PROMPTS[0], 24, stop=[stop, "never"])
    assert (cut.choices[0].text, cut.choices[0].finish_reason) == (whole[:place], "stop")
    chunks = [c.choices[0].text for c in greedy(client, PROMPTS[0], 24, stop=stop, stream=True)]
    assert "".join(chunks) == whole[:place]
    # The slot is free again at once: what was not told was not generated, but for what ran.
    assert cut.usage.completion_tokens < 24


def test_stop_tokens_end_a_text(client):
    ids = greedy(client, PROMPTS[0], 12).choices[0].token_ids
    cut = greedy(client, PROMPTS[0], 12, extra_body={"stop_token_ids": [ids[4]]})
    assert cut.choices[0].token_ids == ids[: ids.index(ids[4]) + 1]
    assert cut.choices[0].finish_reason == "stop"


def test_a_seed_gives_the_same_text_whatever_else_runs(client):
    def drawn(seed, prompt=PROMPTS[0], **more):
        answer = client.completions.create(
            model="chat", prompt=prompt, max_tokens=16, temperature=1.2, top_p=0.95, seed=seed,
            extra_body={"return_token_ids": True}, **more,
        )  # fmt: skip
        return [choice.token_ids for choice in answer.choices]

    alone = drawn(7, n=2)
    assert alone[0] != alone[1]
    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(drawn, seed) for seed in (1, 2, 3)]
        again = [pool.submit(drawn, 7, n=2) for _ in range(3)]
        assert [each.result() for each in again] == [alone] * 3
        assert len({str(each.result()) for each in others}) == 3
    assert drawn(7, [PROMPTS[1], PROMPTS[0]])[1] == alone[0]


def test_logprobs_of_prompt_and_text_are_those_of_the_model(client, decoder, texts):
    answer = greedy(client, PROMPTS[0], 6, echo=True, logprobs=3)
    choice = answer.choices[0]
    prompt = texts.tokenizer.encode(PROMPTS[0])
    scored = choice.logprobs
    assert choice.text.startswith(PROMPTS[0])
    assert choice.token_ids[: len(prompt)] == prompt
    tokens = choice.token_ids
    assert scored.tokens == [texts.tokenizer.label(token) for token in tokens]
    assert (scored.token_logprobs[0], scored.top_logprobs[0]) == (None, None)
    rows = logits_of(decoder, tokens)
    for place, (token, logits) in enumerate(zip(tokens[1:], rows, strict=False), 1):
        ours = score_token(logits, token, 3)
        assert scored.token_logprobs[place] == pytest.approx(ours.logprob, abs=2e-4)
        assert len(scored.top_logprobs[place]) in (3, 4)
        assert scored.token_logprobs[place] in scored.top_logprobs[place].values()
    for place, offset in enumerate(scored.text_offset):
        label = scored.tokens[place]
        # Half a character belongs to whoever completes it, or to no one.
        around = scored.tokens[max(0, place - 1) : place + 1]
        if not any(each.startswith(("bytes:", "<")) for each in around):
            assert choice.text[offset:].startswith(label)


def logits_of(decoder, tokens):
    """Logits after each token, by steps in the first slot."""
    rows = []
    for place, token in enumerate(tokens):
        idle = [0] * (decoder.batch - 1)
        answer = decoder.step(0, [token, *idle], [place, *idle])
        rows.append(np.array(answer.result()[0]))
    return rows


def test_a_prompt_may_be_scored_without_a_text(client):
    answer = greedy(client, PROMPTS[0], 0, echo=True, logprobs=1)
    assert answer.choices[0].text == PROMPTS[0]
    assert answer.usage.completion_tokens == 0
    assert all(math.isfinite(each) for each in answer.choices[0].logprobs.token_logprobs[1:])


def test_penalties_and_biases_change_what_is_chosen(client):
    plain = greedy(client, PROMPTS[0], 24).choices[0].token_ids
    never = greedy(client, PROMPTS[0], 24, logit_bias={str(plain[0]): -100}).choices[0].token_ids
    assert plain[0] not in never
    less = greedy(client, PROMPTS[0], 24, frequency_penalty=2, presence_penalty=2)
    assert len(set(less.choices[0].token_ids)) > len(set(plain))


def test_the_second_time_a_prompts_rows_are_there_and_the_text_is_the_same(client):
    prompt = "the dog and the fox and " * 8
    first, second = greedy(client, prompt), greedy(client, prompt)
    assert second.choices[0].token_ids == first.choices[0].token_ids
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached >= 16
    assert cached % 16 == 0
    assert cached < second.usage.prompt_tokens


def test_a_model_without_a_tokenizer_takes_tokens_and_says_so(client, served_models):
    answer = client.completions.create(model="words", prompt=[1, 2, 3], max_tokens=5, temperature=0)
    with Decoder.load(served_models / "words.hetero") as decoder:
        (expected,) = decoder.generate([[1, 2, 3]], 5)
    assert answer.choices[0].token_ids == expected.tokens
    assert answer.choices[0].text == ""
    for more in ({"prompt": "hello"}, {"prompt": [1], "stop": "x"}):
        with pytest.raises(openai.BadRequestError, match="no tokenizer"):
            client.completions.create(model="words", max_tokens=5, **more)
