"""Rows that stay: a prompt that begins as an earlier one did begins behind it; same bits."""

from __future__ import annotations

import threading

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.generation.language import VOCABULARY, Language, expected, logits_of
from tests.generation.test_batching import languages, speaking
from tvm_hetero.errors import UsageError
from tvm_hetero.generation.batching import Batching
from tvm_hetero.generation.logprobs import score_token
from tvm_hetero.generation.penalties import Penalties, penalise
from tvm_hetero.generation.sampling import Sampling
from tvm_hetero.generation.sequences import Entered, Event, GenerationRequest, ScoredPrompt

# Few beginnings, so that many prompts share one.
beginnings = st.sampled_from([(1,) * 6, (1,) * 10, (1, 2, 3, 4, 5, 6, 7, 8), (2,)])
prompts = st.builds(
    lambda first, rest: (first + rest)[:12], beginnings, st.tuples(st.integers(0, 9))
)
turns = st.lists(
    st.lists(st.builds(GenerationRequest, prompts, st.integers(1, 5)), min_size=1, max_size=4),
    min_size=2, max_size=4,
)  # fmt: skip


def converse(batching, asked):
    """Turns after each other on one batching: texts by number, and rows that were there."""
    texts, cached, number = {}, {}, 0
    rounds = batching.rounds(stays=True)
    for turn in asked:
        open_ones = {batching.add(request) for request in turn}
        while open_ones:
            for happened in next(rounds):
                if isinstance(happened, Entered):
                    cached[happened.sequence] = happened.cached
                elif isinstance(happened, Event):
                    texts.setdefault(happened.sequence, []).append(happened.token)
                    open_ones -= {happened.sequence} if happened.reason else set()
        number += len(turn)
    batching.end()
    assert next(rounds, None) is None
    return texts, cached


@settings(max_examples=draws(40), deadline=None)
@given(languages, turns)
def test_turns_give_what_they_give_alone_and_begin_at_whole_chunks(options, asked):
    with speaking(**options) as language:
        texts, cached = converse(Batching(language, keeps_rows=True), asked)
    flat = [request for turn in asked for request in turn]
    for number, request in enumerate(flat):
        assert texts[number] == expected(request, number, language.length)
        assert cached[number] % language.chunk == 0
        assert cached[number] < len(request.prompt)


def test_the_next_turn_of_a_chat_makes_only_what_is_new():
    first = GenerationRequest(tuple(range(10)), 3)
    with speaking(batch=2, length=32, chunk=4) as language:
        texts, cached = converse(Batching(language, keeps_rows=True), [[first]])
        chunks = language.chunks
        assert cached == {0: 0}
        second = GenerationRequest((*first.prompt, *texts[0], 7, 8), 3)
        texts, cached = converse(Batching(language, keeps_rows=True), [[first], [second]])
    assert cached == {0: 0, 1: 8}
    assert texts[1] == expected(second, 1, 32)
    # The first turn again, and of the second's 15 tokens those behind 8: two chunks.
    assert language.chunks == 2 * chunks + 2


def test_kept_rows_outlive_steps_of_neighbours():
    # The second slot is idle, and stepped all the same, while the first one writes ten tokens.
    kept, long = GenerationRequest((5,) * 9, 1), GenerationRequest((1,), 10)
    again = GenerationRequest((*kept.prompt, 6), 4)
    with speaking(batch=2, length=12, chunk=4) as language:
        texts, cached = converse(Batching(language, keeps_rows=True), [[kept], [long], [again]])
    assert cached[2] == 8
    assert texts[2] == expected(again, 2, 12)


def test_rows_that_were_lost_are_made_again():
    asked = [[GenerationRequest((5,) * 9, 2)], [GenerationRequest((5,) * 9, 2)]]
    with speaking(batch=1, length=16, chunk=4, lose_at=[5]) as language:
        texts, _ = converse(Batching(language, keeps_rows=True), asked)
        assert language.losses == 1
    assert texts == {n: expected(turn[0], n, 16) for n, turn in enumerate(asked)}


def test_it_stays_until_it_is_ended_from_another_thread():
    with speaking() as language:
        batching = Batching(language)
        seen: list[Event] = []
        done = threading.Event()

        def follow() -> None:
            for happened in batching.rounds(stays=True):
                events = [each for each in happened if isinstance(each, Event)]
                seen.extend(events)
                if any(each.reason for each in events):
                    done.set()

        follower = threading.Thread(target=follow)
        follower.start()
        for number in range(3):  # each when the one before has ended
            done.clear()
            assert batching.add(GenerationRequest((number + 1,), 2)) == number
            assert done.wait(60)
        batching.end()
        follower.join(60)
        assert not follower.is_alive()
    assert [each.sequence for each in seen] == [0, 0, 1, 1, 2, 2]


def test_a_stream_of_ones_own_gives_the_same_text_whatever_else_was_asked():
    drawn = Sampling(1.0, seed=3)
    asked = GenerationRequest((1, 2), 8, drawn, stream=5)
    other = GenerationRequest((3,), 4, drawn)
    with speaking() as language:
        alone, _ = converse(Batching(language), [[asked]])
        behind, _ = converse(Batching(language), [[other], [other, asked]])
    assert alone[0] == behind[2] == expected(asked, 5, 16)
    assert alone[0] != expected(asked, 0, 16)


def test_the_lower_priority_number_enters_first():
    late = GenerationRequest((1,), 1, priority=1)
    soon = GenerationRequest((2,), 1, priority=0)
    with speaking(batch=1) as language:
        _, cached = converse(Batching(language), [[late, late, soon]])
    assert list(cached) == [2, 0, 1]


@pytest.mark.parametrize("lose_at", [[], [3]])
def test_a_prompts_tokens_are_scored_each_by_those_before_it(lose_at):
    prompt = (4, 2, 9, 9, 1, 7)
    asked = GenerationRequest(prompt, 1, logprobs=2, scores_prompt=True)
    with speaking(chunk=4, lose_at=lose_at) as language:
        batching = Batching(language, keeps_rows=True)
        batching.add(asked)
        happened = [each for some in batching.rounds() for each in some]
    (scored,) = [each for each in happened if isinstance(each, ScoredPrompt)]
    logits = [logits_of(prompt[:place]) for place in range(1, len(prompt))]
    assert scored.scores == tuple(
        score_token(row, token, 2) for row, token in zip(logits, prompt[1:], strict=True)
    )
    assert [len(each.top) for each in scored.scores] == [2] * 5
    (event,) = [each for each in happened if isinstance(each, Event)]
    assert event.logprobs is not None
    assert event.logprobs.token == event.logprobs.top[0][0] == event.token


def test_logprobs_are_logarithms_of_probabilities():
    logits = np.array([1.0, 3.0, -np.inf, 3.0], np.float32)
    scored = score_token(logits, 2, 4)
    assert scored.logprob == -9999.0
    assert [token for token, _ in scored.top] == [1, 3, 0, 2]
    assert sum(np.exp(value) for _, value in scored.top) == pytest.approx(1.0)


def test_penalties_are_those_of_the_formula():
    logits = np.zeros(5, np.float32)
    changed = penalise(logits, Penalties(0.5, 0.25, ((4, 2.0),)), [1, 1, 3])
    np.testing.assert_allclose(changed, [0, -1.25, 0, -0.75, 2.0])
    assert not logits.any()
    with pytest.raises(UsageError, match="frequency nan"):
        Penalties(float("nan"))


def test_a_penalty_ends_a_loop():
    class Stuck(Language):
        def _read(self, rows):
            return np.array([0.0, 1.0, 0.9] + [-9.0] * (VOCABULARY - 3), np.float32)

    language = Stuck()
    plain = GenerationRequest((1,), 4)
    less = GenerationRequest((1,), 4, penalties=Penalties(frequency=0.5))
    texts, _ = converse(Batching(language), [[plain, less]])
    language.close()
    assert texts == {0: [1, 1, 1, 1], 1: [1, 2, 1, 2]}
