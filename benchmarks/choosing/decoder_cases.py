"""Decoders of 7B to 405B, machines for them, and loads of chats, as questions of `choose`.

Lengths are log-normal with the means that L. Zheng et al. (LMSYS-Chat-1M, arXiv 2309.11998, table
1) count in the conversations that Mélange draws from: 69.5 tokens of a prompt and 214.5 of an
answer; their deviations are ours, and both are cut off at half of the caches. Mélange's limit is
of the mean time from token to token of a request; here it holds for 99 % of them (its own runs:
99.5 %). It has no limit of the first token, so there is none here.

A machine is so many GPUs of one server. The processor beside them has no room for weights, so that
layers stand on GPUs, as in vLLM. Where one GPU is too small the layers are a pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.choosing.published import PRICES
from tvm_hetero import zoo
from tvm_hetero.planning.choosing import MachineOffer, ModelVariant, RequestClass, SloLimit
from tvm_hetero.planning.choosing.format import keep_devices
from tvm_hetero.planning.requests import Lengths, ServiceRequest

_SERVERS = {"T4": "t4x4", "L4": "l4x4", "A100": "a100x8", "H100": "h100x8"}
# Logits of a batch and other small things have room beside a GPU, layers have not.
_HOST_ROOM = 2**24
_AVAILABLE = 200
_CONTEXT = 2048
PROMPT, OUTPUT = Lengths("lognormal", 69.5, 1.2), Lengths("lognormal", 214.5, 0.9)


@dataclass(frozen=True)
class DecoderCase:
    """A decoder, the machines that may run it, the limit of a token, and how often it is asked.

    Attributes
    ----------
    machines : a kind of GPU and how many of them are one machine.
    batches : the largest batches that are planned for.
    limit : from token to token, s, at p99.
    rated_by, played : requests that a machine is rated with, and that a question has at least.
    """

    model: str
    machines: tuple[tuple[str, int], ...]
    batches: tuple[int, ...]
    limit: float
    rates: tuple[float, ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    rated_by: int = 40
    played: int = 100

    @property
    def variant(self) -> ModelVariant:
        """The decoder, as `choose` is told."""
        parameters = {"context": _CONTEXT, **self.parameters}
        return ModelVariant(self.model, 1.0, self.model, "float16", parameters)

    @property
    def offers(self) -> tuple[MachineOffer, ...]:
        """Its machines."""
        return tuple(offer(kind, count) for kind, count in self.machines)

    def asked(self, rate: float, seconds: float, seed: int = 1) -> RequestClass:
        """Chats at a rate: Poisson, given that as many come as are to be expected.

        A number of its own for each load would be noise between what machines are rated by.
        """
        count, half = max(1, round(rate * seconds)), _CONTEXT // 2
        random = np.random.default_rng((seed, count))
        rows = zip(
            np.sort(random.uniform(0.0, seconds, count)).tolist(),
            np.minimum(PROMPT.draw(count, random), half).tolist(),
            np.minimum(OUTPUT.draw(count, random), half).tolist(),
            strict=True,
        )
        requests = tuple(ServiceRequest(*row) for row in rows)
        return RequestClass("chats", requests, self.slo, seconds=seconds, rate=rate)

    @property
    def slo(self) -> tuple[SloLimit, ...]:
        """Of every request."""
        return (SloLimit("tpot", 99, self.limit),)


_SMALL = (("L4", 1), ("A100", 1), ("H100", 1))
_RATES = (1.0, 4.0, 16.0)
CASES = (
    DecoderCase("llama2-7b", (("T4", 2), *_SMALL), (8, 16), 0.120, _RATES),
    DecoderCase("llama2-7b", (("T4", 2), *_SMALL), (16,), 0.040, _RATES),
    DecoderCase("llama2-13b", (("T4", 4), ("L4", 2), *_SMALL[1:]), (4, 8), 0.120, (1.0, 4.0)),
    DecoderCase("llama2-70b", (("A100", 4), ("H100", 4)), (8, 16, 32), 0.120, _RATES),
    # Nothing is published of it; pipelines of eight take so long for a token.
    DecoderCase("llama3-405b", (("A100", 8), ("H100", 8)), (4, 8, 16), 0.400, (1.0, 4.0),
                {"weights": "int8"}),
)  # fmt: skip
SMALL_CASE = DecoderCase(
    "gpt3-1.3b", (("T4", 1), ("L4", 1)), (4,), 0.120, (2.0,), rated_by=8, played=20
)


def offer(kind: str, count: int) -> MachineOffer:
    """So many GPUs of a kind in one server."""
    names = ("cpu", *(f"gpu{i}" for i in range(count)))
    whole = keep_devices(zoo.platform(_SERVERS[kind]), names, kind)
    devices = tuple(
        replace(each, memory=_HOST_ROOM) if each.name == "cpu" else each for each in whole.devices
    )
    platform = replace(whole, devices=devices)
    name = kind if count == 1 else f"{count} x {kind}"
    return MachineOffer(name, platform, _AVAILABLE, count * PRICES[kind])
