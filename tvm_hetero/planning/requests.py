"""What a service is asked: requests with arrivals, prompts and outputs; drawn, or from a trace.

A trace is JSON, arrivals in seconds and lengths in tokens:

    {"format": "tvm-hetero/requests/1",
     "requests": [{"arrival": 0.5, "prompt": 100, "output": 20}, ...]}

Drawn arrivals are Poisson: the times between them are exponential. Arrivals, prompts and outputs
have random streams of their own, so that another rate leaves the lengths of the n-th request as
they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.errors import UsageError
from tvm_hetero.util.documents import check_format, read_document
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.units import parse_number

FORMAT = "tvm-hetero/requests/1"
# Requests that one simulation takes: each is some events for each of its tokens.
MOST = 1_000_000


@dataclass(frozen=True)
class ServiceRequest:
    """A prompt of so many tokens arrives, and so many are wanted after it."""

    arrival: float
    prompt: int
    output: int


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths: ``512``, ``uniform:100:900`` or ``lognormal:MEAN:SIGMA``.

    `first` and `second` are the length itself, least and most, or the mean and the deviation of the
    logarithm.
    """

    kind: str
    first: float
    second: float = 0.0

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """So many lengths, each at least 1."""
        if self.kind == "fixed":
            drawn = np.full(count, self.first)
        elif self.kind == "uniform":
            drawn = random.integers(int(self.first), int(self.second) + 1, count).astype(float)
        else:
            mean = np.log(self.first) - self.second**2 / 2
            drawn = random.lognormal(mean, self.second, count)
        lengths: NDArray[np.int64] = np.maximum(1, np.rint(drawn)).astype(np.int64)
        return lengths

    @property
    def mean(self) -> float:
        """The mean length, before rounding."""
        return (self.first + self.second) / 2 if self.kind == "uniform" else self.first


def parse_lengths(text: str, where: str = "lengths") -> Lengths:
    """Read a distribution of lengths (see `Lengths`).

    Raises
    ------
    UsageError
        If it is none of them, or its numbers make no sense.
    """
    kind, _, rest = text.partition(":")
    parts = rest.split(":") if rest else []
    try:
        if not parts:
            found = Lengths("fixed", int(kind))
        else:
            first, second = (float(part) for part in parts)
            found = Lengths(kind, first, second)
    except ValueError:
        found = Lengths("?", 0.0)
    sound = {
        "fixed": found.first >= 1,
        "uniform": 1 <= found.first <= found.second < MOST,
        "lognormal": found.first >= 1 and 0 <= found.second <= 10,
    }
    if not sound.get(found.kind, False):
        raise UsageError(
            f"{where}: expected a length such as 512, uniform:100:900 or lognormal:512:0.8 "
            f"(mean, deviation of the logarithm), got {text!r}"
        )
    return found


def poisson(
    rate: float,
    seconds: float,
    prompt: Lengths,
    output: Lengths,
    seed: int | Sequence[int] = 0,
) -> tuple[ServiceRequest, ...]:
    """Requests that arrive in [0, seconds), `rate` a second in the mean.

    Raises
    ------
    UsageError
        If rate or seconds are not above 0, or more than `MOST` requests are to be expected.
    """
    if not (0 < rate < float("inf") and 0 < seconds < float("inf")):
        raise UsageError(
            f"expected a rate and seconds above 0, got {rate:g} requests a second, {seconds:g} s"
        )
    if rate * seconds > MOST:
        raise UsageError(
            f"{rate:g} requests a second for {seconds:g} s are more than {MOST} requests; "
            "simulate fewer seconds"
        )
    streams = [np.random.default_rng(each) for each in np.random.SeedSequence(seed).spawn(3)]
    arrivals: list[float] = []
    now = 0.0
    while (now := now + float(streams[0].exponential(1 / rate))) < seconds:
        arrivals.append(now)
    prompts = prompt.draw(len(arrivals), streams[1]).tolist()
    outputs = output.draw(len(arrivals), streams[2]).tolist()
    return tuple(ServiceRequest(*row) for row in zip(arrivals, prompts, outputs, strict=True))


def load_trace(path: str | os.PathLike[str]) -> tuple[ServiceRequest, ...]:
    """Read a trace, in the order of arrivals.

    Raises
    ------
    FormatError
        If the file cannot be read or says something unknown or of the wrong kind.
    """
    where = str(path)
    document = read_document(path)
    check_format(document, FORMAT, where)
    row = Fields(document, where, ["format", "requests"])
    if not 1 <= len(row.items("requests")) <= MOST:
        row.refuse("requests", f"a list of 1 to {MOST} requests")
    found = row.rows("requests", _request, "request")
    return tuple(sorted(found, key=lambda request: request.arrival))


def _request(data: object, where: str) -> ServiceRequest:
    row = Fields(data, where, ["arrival", "prompt", "output"])
    prompt, output = (row.integer(key, least=1, most=MOST) for key in ("prompt", "output"))
    return ServiceRequest(row.quantity("arrival", parse_number), prompt, output)


def truncate_requests(
    requests: Sequence[ServiceRequest], context: int
) -> tuple[tuple[ServiceRequest, ...], int]:
    """The requests made to fit into caches of so many tokens, and how many had to be cut.

    The last token that is generated needs no row. A prompt leaves room for one token at least.
    """
    fitting = []
    for request in requests:
        prompt = min(request.prompt, context)
        output = min(request.output, context - prompt + 1)
        fitting.append(replace(request, prompt=prompt, output=output))
    return tuple(fitting), sum(a != b for a, b in zip(fitting, requests, strict=True))
