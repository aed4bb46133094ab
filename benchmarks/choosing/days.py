"""Days of several models, drawn: how often each is asked in every hour.

Popularity is Zipf's, as in the Azure Functions trace (M. Shahrad et al., Serverless in the Wild,
USENIX ATC 2020), which also shows what a day looks like: by night about half of the invocations of
the busiest hour are left over all functions, and single ones go to nothing. So three kinds of day:

    together     all models follow one curve, whose night has `_NIGHT` of its peak
    shifted      each model has the curve at hours of its own (users on several continents)
    unsteady     as together, each hour of each model times a factor of its own, log-normal, and a
                 third of the models is asked only in some hours

No figure of the trace itself is used.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.choosing.cases import machines
from tvm_hetero.planning.choosing import ModelVariant, SloLimit
from tvm_hetero.planning.sharing import SharedMachine, SharedModel, SharingRequest

DAYS = ("together", "shifted", "unsteady")
_HOURS, _NIGHT, _SIGMA, _ZIPF = 24, 0.2, 0.5, 1.1
# Models and the limit of their latency at p99, s; the first is the most popular.
_MODELS = (
    ("resnet50", 0.060),
    ("vit-base", 0.200),
    ("mobilenet-v2", 0.030),
    ("bert-base", 0.120),
    ("densenet121", 0.150),
    ("resnet152", 0.400),
)
_AVAILABLE = {"t4": 6, "l4": 4, "a100-40": 1}
_PEAK = 2500.0


def draw_day(kind: str, seed: int, *, small: bool = False) -> SharingRequest:
    """A day of one of `DAYS`: six models, or two of them and little load."""
    random = np.random.default_rng([DAYS.index(kind), seed])
    models = _MODELS[:2] if small else _MODELS
    weights = 1.0 / np.arange(1, len(models) + 1) ** _ZIPF
    peaks = weights / weights.sum() * (100.0 if small else _PEAK)
    hours = 4 if small else _HOURS
    asked = []
    for (model, limit), peak in zip(models, peaks, strict=True):
        shift = random.integers(hours) if kind == "shifted" else 0
        curve = [_curve((t + shift) % hours / hours) for t in range(hours)]
        if kind == "unsteady":
            curve = _disturbed(curve, random)
        rates = tuple(round(float(peak) * part, 3) for part in curve)
        network = ModelVariant(model, 0.0, model, "float32")
        asked.append(SharedModel(network, (SloLimit("latency", 99, limit),), rates))
    available = {"t4": 2, "l4": 1} if small else _AVAILABLE
    offers = tuple(SharedMachine(offer, start=120.0) for offer in machines(available))
    return SharingRequest(
        tuple(asked), offers, (1, 8) if small else (1, 4, 16), 2.0 if small else 3.0,
        f"{kind} {seed}", seed,
    )  # fmt: skip


def _curve(part: float) -> float:
    """The load at a part of the day, of that of the busiest hour."""
    return _NIGHT + (1 - _NIGHT) * (1 - math.cos(2 * math.pi * part)) / 2


def _disturbed(curve: list[float], random: np.random.Generator) -> list[float]:
    factors = random.lognormal(-(_SIGMA**2) / 2, _SIGMA, len(curve))
    asked = random.random(len(curve)) < 0.4 if random.random() < 1 / 3 else [True] * len(curve)
    found = [c * float(f) * bool(a) for c, f, a in zip(curve, factors, asked, strict=True)]
    return found if any(found) else curve
