"""A decoder and a model of tensors on the same cores: the same tokens, and both go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.generation.language import Language
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.errors import RunError
from tvm_hetero.generation.sequences import Event, GenerationRequest
from tvm_hetero.serve.core.query import InferenceQuery
from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.models.gated_stepper import Gate, GatedStepper
from tvm_hetero.serve.models.pool_dispatcher import PoolDispatcher
from tvm_hetero.serve.models.tensor_model import TensorModel
from tvm_hetero.serve.scheduling.policies import SHARE_POLICIES

PROMPTS = [[1, 2, 3], [4], list(range(5, 30)), [7, 7]]


async def _generate(model: DecoderModel) -> list[list[int]]:
    requests = [GenerationRequest(tuple(prompt), 20) for prompt in PROMPTS]
    running = model.submit(requests, 8, None)
    tokens: list[list[int]] = [[] for _ in requests]
    left = len(requests)
    while left:
        for place, happening in await running.read():
            if isinstance(happening, Event):
                tokens[place] += [] if happening.token is None else [happening.token]
                left -= happening.reason is not None
    return tokens


def test_tokens_are_those_of_the_decoder_alone_while_others_are_served(served_models: Path):
    with Decoder.load(served_models / "words.hetero") as alone:
        expected = [each.tokens for each in alone.generate(PROMPTS, 20, stop=())]
    dense = TensorModel("dense", "1", load_artifact(served_models / "dense.hetero"))
    cores = sorted(dense.instances.plans.cores)
    pool = PoolDispatcher(cores, SHARE_POLICIES["accordion"], 64)
    pool.add(dense)
    decoder = Decoder.load(served_models / "words.hetero")
    words = DecoderModel(
        "words", "1", decoder, served_models / "words.hetero", pool.gate("words", "1", 1e-3)
    )
    answered = []

    async def ask(until: asyncio.Event) -> None:
        inputs = dense.executor.inputs_that_run(0)
        while not until.is_set():
            await pool.compute(dense, InferenceQuery(inputs))
            answered.append(time.monotonic())

    async def both() -> list[list[int]]:
        over = asyncio.Event()
        asking = asyncio.ensure_future(ask(over))
        tokens = await _generate(words)
        over.set()
        await asking
        await asyncio.get_running_loop().run_in_executor(None, words.close)
        return tokens

    assert asyncio.run(both()) == expected
    assert len(answered) > 5  # the decoder did not keep the cores
    assert {"words", "dense"} <= {name for _, owners in pool.changes for name in owners}
    assert pool.free == len(cores)
    dense.close()
    assert np.isfinite(answered).all()


def test_a_step_whose_turn_is_taken_away_ends_with_an_error_and_keeps_nobody_waiting():
    @asynccontextmanager
    async def endless() -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    async def main() -> None:
        language = Language(groups=1, batch=2, chunk=4)
        gated = GatedStepper(language, Gate(endless, lambda: True))
        gated.loop = asyncio.get_running_loop()
        answer = gated.step(0, [1, 1], [0, 0])
        await asyncio.sleep(0)
        for turn in list(gated._running):
            turn.cancel()
        with pytest.raises(RunError, match="taken away"):
            await asyncio.wait_for(asyncio.wrap_future(answer), 60)

    asyncio.run(main())
