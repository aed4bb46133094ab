"""When requests are due, however the server does: the load of an open loop."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.util.plain_file import read_plain_text
from tvm_hetero.util.quote import quote

_MOST = 10_000_000  # arrivals
_MOST_BYTES = 512 * 1024 * 1024


class Arrival(NamedTuple):
    """A request that is due `seconds` after the start."""

    seconds: float
    model: str


def poisson(
    rate: float, seconds: float, models: Mapping[str, float], seed: int = 0
) -> list[Arrival]:
    """Arrivals that know nothing of each other.

    Parameters
    ----------
    rate : requests/s, of all models together.
    models : how often each is asked, in any unit.

    Raises
    ------
    UsageError
        If there would be none, or too many of them.
    """
    if not 0 < rate * seconds <= _MOST:
        raise UsageError(f"{rate:g} requests/s for {seconds:g} s: expected 1 to {_MOST} requests")
    drawn = random.Random(seed)
    names, weights = list(models), list(models.values())
    moment = 0.0
    found: list[Arrival] = []
    while (moment := moment + drawn.expovariate(rate)) < seconds:
        found.append(Arrival(moment, drawn.choices(names, weights)[0]))
    return found


def read_trace(path: Path, models: Sequence[str]) -> list[Arrival]:
    """Arrivals from lines ``SECONDS[,MODEL]``; without a model they take turns.

    Raises
    ------
    FormatError
        If a line is none, or tells of a model that is not asked.
    """
    try:
        lines = read_plain_text(path, _MOST_BYTES).split("\n")
    except OSError as error:
        raise UsageError(
            f"--trace {path}: cannot be read: {error.strerror}; expected lines SECONDS[,MODEL]"
        ) from None
    found: list[Arrival] = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if text:
            where = f"{path.name} line {number}"
            found.append(_arrival(text, where, models, len(found)))
    if not found:
        raise FormatError(f"{path.name} has no line SECONDS[,MODEL]")
    return sorted(found)


def _arrival(text: str, where: str, models: Sequence[str], count: int) -> Arrival:
    time, _, model = (part.strip() for part in text.partition(","))
    try:
        seconds = float(time)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise FormatError(f"{where}: expected SECONDS[,MODEL], got {quote(text)}")
    if model and model not in models:
        raise FormatError(f"{where}: {quote(model)} is not asked; add it with --model")
    return Arrival(seconds, model or models[count % len(models)])
