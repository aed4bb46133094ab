"""Prompts in, tokens out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.generation.language import VOCABULARY, Language, expected
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.generation.generate import Generates
from tvm_hetero.generation.sampling import Sampling
from tvm_hetero.generation.sequences import GenerationRequest


class Speaker(Generates, Language):
    stop = (0,)


@pytest.fixture
def speaker():
    found = Speaker(groups=2, batch=2)
    yield found
    found.close()


def wanted(prompts, new, sampling=Sampling(), stop=(0,)):
    requests = [
        GenerationRequest(tuple(prompt), new, sampling, frozenset(stop)) for prompt in prompts
    ]
    return [expected(request, n, 16) for n, request in enumerate(requests)]


PROMPTS = [[1, 2, 3], [4], [5, 6], [7, 8, 9, 10], [11]]


def test_generate_tells_tokens_as_they_come(speaker):
    told = {}
    made = speaker.generate(PROMPTS, 8, told=lambda s, t: told.setdefault(s, []).append(t))
    assert [each.tokens for each in made] == wanted(PROMPTS, 8)
    assert [told[n] for n in range(len(PROMPTS))] == wanted(PROMPTS, 8)
    assert [list(each.prompt) for each in made] == PROMPTS
    assert {each.reason for each in made} <= {"stop", "limit"}


def test_drawn_tokens_are_the_same_whatever_the_batch(speaker):
    sampling = Sampling(0.9, 10, 0.95, seed=4)
    made = [each.tokens for each in speaker.generate(PROMPTS, 8, sampling=sampling, stop=())]
    assert made == wanted(PROMPTS, 8, sampling, ())
    one = Speaker(groups=1, batch=1, chunk=1)
    assert [each.tokens for each in one.generate(PROMPTS, 8, sampling=sampling, stop=())] == made
    one.close()
    other = speaker.generate(PROMPTS, 8, sampling=Sampling(0.9, 10, 0.95, seed=5), stop=())
    assert [each.tokens for each in other] != made


def test_stream_gives_each_sequence_in_order(speaker):
    made = [[] for _ in PROMPTS]
    for sequence, token in speaker.stream(np.array([[1, 2], [3, 4]]), 5):
        made[sequence].append(token)
    assert made[:2] == wanted([[1, 2], [3, 4]], 5)


def test_one_generation_at_a_time(speaker):
    stream = speaker.stream(PROMPTS, 5)
    next(stream)
    with pytest.raises(UsageError, match="a generation is running"):
        speaker.generate(PROMPTS, 5)
    stream.close()
    assert [each.tokens for each in speaker.generate(PROMPTS, 5)] == wanted(PROMPTS, 5)


def test_a_prompt_that_cannot_be_done_is_named_before_anything_runs(speaker):
    with pytest.raises(UsageError, match=r"prompt 1: there is no token 99"):
        speaker.generate([[1], [99]], 5)
    with pytest.raises(UsageError, match=r"prompt 0: expected token ids, such as .* got 'text'"):
        speaker.generate(["text"], 5)
    with pytest.raises(UsageError, match=r"expected a list of prompts, such as .* got 5"):
        speaker.generate(5, 5)
    with pytest.raises(UsageError, match=r"prompt 0: expected token ids.* got 3"):
        speaker.generate([3], 5)
    with pytest.raises(UsageError, match=r"sampling 0\.5: expected a Sampling, such as Sampling\("):
        speaker.generate([[1]], 5, sampling=0.5)
    with pytest.raises(UsageError, match=r"stop: expected token ids, such as .* got 5"):
        speaker.stream([[1]], 5, stop=5)
    assert speaker.requests == 0
    assert speaker.generate([], 5) == []


def test_one_that_fails_does_not_spoil_the_others():
    speaker = Speaker(poisoned=True)
    made = speaker.generate([[VOCABULARY - 1, 1], [1]], 1)
    assert made[0].reason == "failed"
    assert made[1].tokens == wanted([[], [1]][1:], 1)[0]
    with pytest.raises(RunError, match="stumbled"):
        list(speaker.stream([[VOCABULARY - 1, 1], [1]], 1))
    speaker.close()
