"""Rows that stay are those that would be made anew: the same log-probabilities, bit by bit."""

from __future__ import annotations

import pytest

from tests.serve.openai.conftest import CHUNK, LENGTH
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.generation.batching import Batching
from tvm_hetero.generation.sampling import Sampling
from tvm_hetero.generation.sequences import Entered, Event, GenerationRequest

FIRST = tuple(range(10, 60))
TURNS = [
    [FIRST],
    [(*FIRST, *range(60, 75))],
    [(*FIRST, *range(60, 75), *range(80, 100)), (*FIRST[:40], 5, 6, 7), FIRST[:CHUNK]],
    [FIRST, FIRST, (*FIRST, *range(60, 75), *range(80, 110))],
]


def run(decoder, keeps_rows):
    """What each turn's sequences gave, and rows that were there."""
    batching = Batching(decoder, keeps_rows=keeps_rows)
    rounds = batching.rounds(stays=True)
    told, cached = [], []
    for place, turn in enumerate(TURNS):
        drawn = Sampling(0.8, seed=place)
        numbers = {
            batching.add(GenerationRequest(prompt, 12, drawn, stream=0, logprobs=5))
            for prompt in turn
        }
        while numbers:
            for each in next(rounds):
                if isinstance(each, Entered):
                    cached.append(each.cached)
                elif isinstance(each, Event):
                    told.append(each)
                    numbers -= {each.sequence} if each.reason else set()
    rounds.close()
    return sorted(told, key=lambda event: event.sequence), cached


def test_turns_behind_kept_rows_are_those_from_the_beginning(chat_model):
    with Decoder.load(chat_model) as decoder:
        fresh, none = run(decoder, keeps_rows=False)
        kept, cached = run(decoder, keeps_rows=True)
    assert kept == fresh
    assert set(none) == {0}
    assert sum(cached) > 2 * len(FIRST)
    assert all(rows % CHUNK == 0 for rows in cached)


@pytest.mark.parametrize("rows", [LENGTH - 1, LENGTH])
def test_a_slot_that_was_filled_to_its_end_keeps_its_rows(chat_model, rows):
    long = GenerationRequest(tuple(n % 300 for n in range(rows)), 4, stream=0, logprobs=1)
    with Decoder.load(chat_model) as decoder:
        results = []
        for keeps_rows in (False, True):
            batching = Batching(decoder, keeps_rows=keeps_rows)
            rounds = batching.rounds(stays=True)
            events = []
            for request in (long, GenerationRequest((7,), 9), long):
                batching.add(request)
                while not (events and events[-1].reason):
                    events += [each for each in next(rounds) if isinstance(each, Event)]
                results.append([(each.token, each.logprobs) for each in events])
                events = []
            rounds.close()
    assert results[:3] == results[3:]
    assert results[0] == results[2]
