"""A decoder that reads and writes texts, a server of it, and OpenAI's client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import openai
import pytest

from tests.models import two_cpus
from tests.serve.server_process import ServerProcess
from tests.serve.small_tokenizer import VOCABULARY, write_texts
from tests.small_decoders import tiny

LENGTH, CHUNK, SLOTS = 192, 16, 4


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``chat.hetero``: of `SLOTS` slots and `LENGTH` rows, with `VOCABULARY` tokens."""
    from tvm_hetero.decoders.build import DecoderOptions, build_decoder

    home = tmp_path_factory.mktemp("chat")
    folder = tiny(
        "llama", home / "model", vocab_size=VOCABULARY, eos_token_id=1,
        max_position_embeddings=LENGTH,
    )  # fmt: skip
    write_texts(folder)
    figures = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    place = two_cpus()
    place = replace(place, devices=tuple(replace(d, **figures) for d in place.devices))
    build_decoder(
        folder, place, home / "chat.hetero",
        DecoderOptions(length=LENGTH, chunk=CHUNK, batch=SLOTS, groups=1),
        solver="heft", cost_model="analytical", measure=False,
    )  # fmt: skip
    return home / "chat.hetero"


@pytest.fixture(scope="session")
def chatting(served_models: Path, chat_model: Path) -> Iterator[ServerProcess]:
    """A server of ``chat``, ``words`` (no tokenizer) and ``branchy`` (no decoder)."""
    others = [str(served_models / f"{name}.hetero") for name in ("words", "branchy")]
    with ServerProcess([str(chat_model), *others]) as server:
        yield server


@pytest.fixture(scope="session")
def client(chatting: ServerProcess) -> openai.OpenAI:
    """OpenAI's own client."""
    return openai.OpenAI(base_url=f"{chatting.url}/v1", api_key="none", max_retries=0)
