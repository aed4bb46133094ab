"""Models to serve, built once, and servers in processes of their own, as users start them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.models import two_cpus
from tests.serve.build_models import build_tensor_models
from tests.serve.server_process import ServerProcess
from tests.small_decoders import tiny


@pytest.fixture(scope="session")
def served_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``branchy.hetero``, ``dense.hetero`` (adaptable; batches of queries) and ``words.hetero``, a
    decoder of 4 slots and 64 rows, made of the folder ``words`` (96 tokens)."""
    from tvm_hetero.decoders.build import DecoderOptions, build_decoder

    home = tmp_path_factory.mktemp("served")
    build_tensor_models(home)
    figures = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    place = two_cpus()
    place = replace(place, devices=tuple(replace(d, **figures) for d in place.devices))
    build_decoder(
        tiny("llama", home / "words"), place, home / "words.hetero",
        DecoderOptions(length=64, chunk=16, batch=4, groups=1),
        solver="heft", cost_model="analytical", measure=False,
    )  # fmt: skip
    return home


@pytest.fixture(scope="module")
def start_server(served_models: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start ``tvm-hetero serve`` with these arguments (names of `served_models`, options); it is
    ready when this returns, and ended with the module's tests."""
    with ExitStack() as stack:

        def start(*arguments: str) -> ServerProcess:
            known = [
                str(served_models / f"{each}.hetero")
                if (served_models / f"{each}.hetero").exists()
                else each
                for each in arguments
            ]
            return stack.enter_context(ServerProcess(known))

        yield start
