"""Small settings for the tests of `tvm_hetero.online`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.own_plan import Arrangement, parts_of
from tvm_hetero.online.policy import Setting

Seconds = Sequence[Sequence[float]]


def single_cores(*kinds: str) -> tuple[Place, ...]:
    """A place on each core, of the kinds that are given."""
    return tuple(Place(f"{kind}{i}", kind, (i,)) for i, kind in enumerate(kinds))


def random_setting(seed: int, *, blocks: int = 8, **given: Any) -> Setting:
    """A chain of random blocks on two to four cores of two kinds."""
    draw = random.Random(seed)
    places = single_cores(*(draw.choice(["big", "little"]) for _ in range(draw.randint(2, 4))))
    speed = {"big": 1.0, "little": draw.uniform(0.3, 1.0)}
    weights = tuple(draw.uniform(0.2, 3.0) for _ in range(blocks))
    seconds = tuple(tuple(w / speed[p.kind] for p in places) for w in weights)
    static = Configuration((blocks,), (0,))
    given = {"speeds": tuple(speed[p.kind] for p in places), "margin": 1e-9} | given
    return Setting(places, weights, static, seconds, **given)


def observe(seconds: Seconds, configuration: Arrangement, requests: int = 20) -> Observation:
    """What is seen of a configuration where nothing is noisy."""
    times = [
        sum(share * seconds[b][place] for b, share in parts)
        for parts, place in zip(parts_of(configuration), configuration.places, strict=True)
    ]
    stages = tuple(StageTime(time) for time in times)
    return Observation(configuration, requests, requests * max(times), 1 / max(times), stages)
