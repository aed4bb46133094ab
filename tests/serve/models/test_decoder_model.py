"""A decoder as it is served: many readers of one batching, from one loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.errors import UsageError
from tvm_hetero.generation.sequences import Event, GenerationRequest
from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.models.gated_stepper import Gate

PROMPTS = [(1, 2, 3), (9,), tuple(range(30))]


async def texts(model, prompts=PROMPTS, most=6):
    """Tokens of each prompt, asked for together."""
    requests = [GenerationRequest(prompt, most) for prompt in prompts]
    running = model.submit(requests, 64, None)
    made = [[] for _ in prompts]
    ended = 0
    while ended < len(prompts):
        for place, happened in await running.read():
            if isinstance(happened, Event):
                made[place].append(happened.token)
                ended += happened.reason is not None
    return made


@pytest.fixture
def path(served_models):
    return served_models / "words.hetero"


def expected(path):
    with Decoder.load(path) as decoder:
        return [each.tokens for each in decoder.generate(PROMPTS, 6, stop=())]


def test_readers_get_their_own_texts_whatever_others_ask(path):
    async def ask():
        model = DecoderModel("words", "1", Decoder.load(path), path)
        try:
            both = await asyncio.gather(texts(model), texts(model, PROMPTS[::-1]))
        finally:
            await asyncio.to_thread(model.close)
        return both

    one, other = asyncio.run(ask())
    assert one == other[::-1] == expected(path)


def test_steps_that_wait_for_their_turn_give_the_same(path):
    turns = 0

    @asynccontextmanager
    async def turn() -> AsyncIterator[None]:
        nonlocal turns
        turns += 1
        await asyncio.sleep(0)
        yield

    async def ask():
        gate = Gate(turn, lambda: True)
        model = await asyncio.to_thread(DecoderModel, "words", "1", Decoder.load(path), path, gate)
        try:
            return await texts(model)
        finally:
            await asyncio.to_thread(model.close)

    assert asyncio.run(ask()) == expected(path)
    assert turns >= 6


def test_all_of_a_requests_texts_begin_or_none_does(path):
    async def ask():
        model = DecoderModel("words", "1", Decoder.load(path), path)
        try:
            with pytest.raises(UsageError, match="there is no token 96"):
                model.submit([GenerationRequest((1,), 1), GenerationRequest((96,), 1)], 64, None)
            return model.waiting, model.running
        finally:
            await asyncio.to_thread(model.close)

    assert asyncio.run(ask()) == (0, 0)
