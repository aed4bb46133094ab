"""Continuous batching: every text as if it were alone, whatever else runs, ends or is lost."""

from __future__ import annotations

from contextlib import contextmanager

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.generation.language import VOCABULARY, Language, expected
from tvm_hetero.errors import NodeLost, RunError, UsageError
from tvm_hetero.generation.batching import Batching
from tvm_hetero.generation.sampling import Sampling
from tvm_hetero.generation.sequences import GenerationRequest

tokens = st.integers(0, VOCABULARY - 1)
samplings = st.one_of(
    st.just(Sampling()),
    st.builds(Sampling, st.just(0.8), st.integers(0, 5), st.just(0.9), st.integers(0, 3)),
)
requests = st.builds(
    GenerationRequest,
    st.lists(tokens, min_size=1, max_size=12).map(tuple),
    st.integers(1, 9),
    samplings,
    st.frozensets(tokens, max_size=3),
)
languages = st.fixed_dictionaries(
    {
        "groups": st.integers(1, 3),
        "batch": st.integers(1, 3),
        "length": st.integers(12, 20),
        "chunk": st.sampled_from([1, 2, 5, 8, 16]),
    }
)


@contextmanager
def speaking(**options):
    language = Language(**options)
    try:
        yield language
    finally:
        language.close()


def texts(batching, asked):
    """What each request gave, and why it ended; no event comes after an end."""
    made = {batching.add(request): [] for request in asked}
    reasons = {}
    for event in batching.events():
        assert event.sequence not in reasons
        if event.token is not None:
            made[event.sequence].append(event.token)
        if event.reason is not None:
            reasons[event.sequence] = event
    assert made.keys() == reasons.keys()
    return list(made.values()), [reasons[number] for number in sorted(reasons)]


@settings(max_examples=draws(36), deadline=None)
@given(languages, st.lists(requests, min_size=1, max_size=8))
def test_each_text_is_what_it_is_alone(options, asked):
    with speaking(**options) as language:
        made, ends = texts(Batching(language), asked)
    for number, (request, text, end) in enumerate(zip(asked, made, ends, strict=True)):
        assert text == expected(request, number, language.length)
        assert end.error is None
        whole = len(request.prompt) + len(text)
        assert (end.reason == "stop") == (text[-1] in request.stop)
        if end.reason == "limit":
            assert len(text) == request.max_new_tokens
        if end.reason == "full":
            assert whole == language.length + 1


@settings(max_examples=draws(36), deadline=None)
@given(
    languages,
    st.lists(requests, min_size=1, max_size=6),
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
)
def test_lost_caches_lose_repeat_and_disorder_no_token(options, asked, lose_at):
    with speaking(**options, lose_at=lose_at) as language:
        made, ends = texts(Batching(language), asked)
    assert made == [expected(r, n, language.length) for n, r in enumerate(asked)]
    assert {end.reason for end in ends} <= {"stop", "limit", "full"}
    assert language.losses or language.requests <= min(lose_at)


@settings(max_examples=draws(25), deadline=None)
@given(languages, st.lists(requests, min_size=2, max_size=6))
def test_who_fails_fails_alone(options, asked):
    with speaking(**options, poisoned=True) as language:
        made, ends = texts(Batching(language), asked)
    for number, (request, text, end) in enumerate(zip(asked, made, ends, strict=True)):
        whole = [*request.prompt, *expected(request, number, language.length)]
        # The last token is never in the caches.
        stumbles = VOCABULARY - 1 in whole[:-1]
        assert (end.reason == "failed") == stumbles
        if stumbles:
            assert "stumbled" in str(end.error)
            assert text == whole[len(request.prompt) :][: len(text)]
        else:
            assert text == whole[len(request.prompt) :]


def test_groups_are_in_flight_together_and_slots_are_used_again():
    asked = [GenerationRequest((n + 1,), 5) for n in range(12)]
    with speaking(groups=2, batch=3, length=16, together=2) as language:
        made, _ = texts(Batching(language), asked)
    assert made == [expected(r, n, 16) for n, r in enumerate(asked)]
    assert language.widest == 2
    # Twelve sequences of five tokens in six slots: two rounds, of two groups each.
    assert language.steps == 2 * 2 * 5


def test_a_new_sequence_enters_as_soon_as_a_slot_is_free():
    asked = [
        GenerationRequest((1,), 9),
        GenerationRequest((2,), 3),
        GenerationRequest((3,), 3),
        GenerationRequest((4,), 3),
    ]
    with speaking(groups=1, batch=2, length=16) as language:
        texts(Batching(language), asked)
    assert language.steps == 9


def test_prompts_go_by_chunks_and_a_small_rest_by_steps():
    with speaking(batch=1, length=40, chunk=16) as language:
        texts(Batching(language), [GenerationRequest(tuple(range(20)), 1)])
        assert (language.chunks, language.steps) == (2, 0)
        texts(Batching(language), [GenerationRequest(tuple(range(18)), 1)])
        assert (language.chunks, language.steps) == (3, 2)


def test_a_long_prompt_does_not_hold_up_its_neighbours_for_long():
    long, short = GenerationRequest(tuple([5] * 40), 1), GenerationRequest((1,), 30)
    with speaking(batch=2, length=64, chunk=4) as language:
        batching = Batching(language)
        first, second = batching.add(short), batching.add(long)
        order = [event.sequence for event in batching.events()]
    # Between two tokens of the short one there are at most two chunks of the long one's ten.
    assert order.index(second) >= 4
    assert order.count(first) == 30


def test_sequences_may_come_and_be_cancelled_while_others_run():
    with speaking(batch=1, length=32) as language:
        batching = Batching(language)
        first, made = batching.add(GenerationRequest((1,), 20)), {}
        late = None
        for event in batching.events():
            made.setdefault(event.sequence, []).append(event)
            if late is None:
                late, never = (
                    batching.add(GenerationRequest((2,), 4)),
                    batching.add(GenerationRequest((3,), 4)),
                )
                batching.cancel(never)
            if len(made[first]) == 5:
                batching.cancel(first)
    assert made[first][-1].reason == "cancelled"
    assert [e.token for e in made[first][:-1]] == expected(GenerationRequest((1,), 20), first, 32)[
        : len(made[first]) - 1
    ]
    assert [e.token for e in made[late]] == expected(GenerationRequest((2,), 4), late, 32)
    assert [e.reason for e in made[never]] == ["cancelled"]


def test_given_up_early_nothing_is_in_flight_and_the_stepper_can_be_used_again():
    asked = [GenerationRequest((n + 1,), 6) for n in range(5)]
    with speaking(groups=2, batch=2) as language:
        batching = Batching(language)
        for request in asked:
            batching.add(request)
        events = batching.events()
        next(events)
        events.close()
        assert not language._busy
        made, _ = texts(Batching(language), asked)
    assert made == [expected(r, n, 16) for n, r in enumerate(asked)]


def test_what_cannot_be_recovered_ends_everything():
    class Gone(Language):
        def recover(self):
            raise RunError("no machine is left")

    language = Gone(lose_at=[3])
    _, ends = texts(Batching(language), [GenerationRequest((1, 2), 6), GenerationRequest((3,), 6)])
    language.close()
    assert [end.reason for end in ends] == ["failed", "failed"]
    assert "no machine is left" in str(ends[0].error)


def test_a_machine_lost_while_recovering():
    class Shaky(Language):
        tries = 0

        def recover(self):
            self.tries += 1
            if self.tries == 1:
                raise NodeLost("another one")
            super().recover()

    language = Shaky(lose_at=[3])
    made, _ = texts(Batching(language), [GenerationRequest((1, 2), 6)])
    language.close()
    assert made == [expected(GenerationRequest((1, 2), 6), 0, 16)]
    assert language.tries == 2


def test_logits_that_are_not_finite_end_their_sequence_alone():
    class Overflowing(Language):
        def _read(self, rows):
            logits = super()._read(rows)
            return np.full_like(logits, np.inf) if rows[0] == 3 else logits

    language = Overflowing()
    asked = [GenerationRequest((1,), 4), GenerationRequest((3,), 4)]
    made, ends = texts(Batching(language), asked)
    language.close()
    assert made == [expected(asked[0], 0, 16), []]
    assert [end.reason for end in ends] == ["limit", "failed"]
    assert "not finite" in str(ends[1].error)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (GenerationRequest((), 1), "is empty"),
        (GenerationRequest(tuple([1] * 17), 1), "has 17 tokens, but the caches hold 16"),
        (GenerationRequest((1, VOCABULARY), 1), f"there is no token {VOCABULARY}; expected 0 to"),
        (GenerationRequest((-1,), 1), "there is no token -1"),
        (GenerationRequest((1,), 1, stop=frozenset([99])), "stop: there is no token 99"),
        (GenerationRequest((1,), 0), "max_new_tokens 0: expected 1 or more"),
    ],
)
def test_what_cannot_be_done_is_refused_and_others_go_on(request_, message):
    with speaking() as language:
        batching = Batching(language)
        with pytest.raises(UsageError, match=message):
            batching.add(request_)
        made, _ = texts(batching, [GenerationRequest((1,), 3)])
    assert made == [expected(GenerationRequest((1,), 3), 0, 16)]
