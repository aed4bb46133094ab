"""Paths of two hops, of all pairs at once, beside the search that looks at all paths."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from tvm_hetero.platform import Device, Link, Platform, path_search
from tvm_hetero.platform.path_search import PathSearch
from tvm_hetero.views.one_stop_paths import one_stop


def _platform(rng: random.Random) -> Platform:
    """Devices with some links, of few kinds, so that paths of equal time are common."""
    count = rng.randint(3, 9)
    names = [f"d{i}" for i in range(count)]
    kinds = [(rng.choice((1e9, 2e9, 8e9)), rng.choice((0.0, 1e-6, 2e-6))) for _ in range(3)]
    links = [
        Link(a, b, *rng.choice(kinds))
        for a in names
        for b in names
        if a != b and rng.random() < rng.choice((0.3, 0.8))
    ]
    return Platform(tuple(Device(name, node="n") for name in names), tuple(links))


def _pairs(platform: Platform) -> list[tuple[int, int]]:
    every = range(len(platform.devices))
    return [(a, b) for a in every for b in every if a != b and b not in platform.links_from(a)]


def test_what_is_known_is_what_a_search_of_all_paths_finds() -> None:
    rng, certain = random.Random(4), 0
    for _ in range(60):
        platform, nbytes = _platform(rng), rng.choice((0, 1000, 5_000_000))
        pairs = _pairs(platform)
        every = range(len(platform.devices))
        links = np.full((len(every), len(every)), math.inf)
        for a in every:
            for b, (latency, bandwidth) in platform.links_from(a).items():
                links[a, b] = latency + nbytes / bandwidth
        found = one_stop(links, np.array(pairs, dtype=np.int64).reshape(-1, 2))
        for k, (a, b) in enumerate(pairs):
            way = PathSearch(a, nbytes, platform.links_from).way_to(b)
            assert platform._finder.way(a, b, nbytes) == way
            if found.known[k]:
                certain += 1
                assert way == (a, found.stops[k], b)
                assert found.seconds[k] == links[a, way[1]] + links[way[1], b]
    assert certain > 200, "else this compares nothing"


def test_links_that_are_all_unlike_are_gone_through_once_for_a_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"d{i}" for i in range(16)]
    links = tuple(
        Link(a, b, 1e9 + 1e6 * (16 * i + j))
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if (i + j) % 2
    )
    platform = Platform(tuple(Device(name, node="n") for name in names), links)
    looked_at, least = 0, path_search._least

    def counted(figures: set[tuple[float, float]], nbytes: float) -> float:
        nonlocal looked_at
        looked_at += len(figures)
        return least(figures, nbytes)

    monkeypatch.setattr(path_search, "_least", counted)
    pairs = _pairs(platform)
    for a, b in pairs:
        platform.path(names[a], names[b], 1000.0)
    assert looked_at <= 2 * len(links) and len(pairs) > 100  # it was each of them for each pair
