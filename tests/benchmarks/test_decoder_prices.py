"""benchmarks/decoder_prices.py: its small mode runs, the program is Mélange's, results hold."""

from __future__ import annotations

import itertools
import json
import math
import random
from typing import Any

import pytest

from benchmarks import decoder_prices
from benchmarks.choosing.published import MELANGE, PRICES
from benchmarks.choosing.rules.melange_program import SLICES, divide_buckets, pack_slices
from benchmarks.quoted.decoder_prices import helix_table, price_table
from benchmarks.result_rows import read_rows
from tvm_hetero.errors import InfeasibleError


def test_decoder_prices_small() -> None:
    (row,) = decoder_prices.main(["--small"])
    assert 0 < row["bound"] <= row["price"] and row["strain"] <= 1
    least = least_price(row, row["margin"])
    # Whatever else is cheaper and carries the load was played, and broke.
    assert row["price"] == pytest.approx(least, rel=1e-3) or (row["broke"] and row["price"] > least)
    assert row["melange_bound"] <= row["melange"]
    assert all(price is None or price >= row["melange"] for price in row["single"].values())
    assert row["melange_played"] is None or row["melange_played"] >= row["melange"]
    assert price_table([row]).count("\n") == 2


def cheapest(asked: list[float], carried: list[list[float]], prices: list[float]) -> float:
    """The cheapest way of two kinds to take all slices, by trying every division of buckets."""
    best = math.inf
    for first in itertools.product(range(SLICES + 1), repeat=len(asked)):
        loads = [
            sum(n / SLICES * r / c for n, r, c in zip(own, asked, row, strict=True))
            for own, row in zip((first, [SLICES - n for n in first]), carried, strict=True)
        ]
        price = sum(math.ceil(load - 1e-9) * c for load, c in zip(loads, prices, strict=True))
        best = min(best, price)
    return best


def test_slices_are_packed_as_cheaply_as_by_trying_all_ways() -> None:
    for seed in range(20):
        draw = random.Random(seed)
        asked = [draw.uniform(0.2, 6.0) for _ in range(2)]
        carried = [[draw.uniform(0.2, 4.0) for _ in asked] for _ in range(2)]
        prices = [draw.uniform(0.5, 8.0) for _ in range(2)]
        found = pack_slices(asked, carried, prices)
        assert found.price == pytest.approx(cheapest(asked, carried, prices))
        free = divide_buckets(asked, carried, prices)
        assert free.bound <= free.price <= found.price + 1e-9


def test_a_size_that_nothing_carries_is_refused() -> None:
    assert pack_slices([1.0], [[0.0], [2.0]], [1.0, 5.0]).counts == (0, 1)
    with pytest.raises(InfeasibleError, match="carried by no kind"):
        pack_slices([1.0, 1.0], [[2.0, 0.0]], [1.0])


def test_published_prices_are_of_whole_gpus_and_mixes_are_cheapest() -> None:
    for table in MELANGE.values():
        for row in table.values():
            for kind, price in row.items():
                if kind != "Mélange":
                    assert price / PRICES[kind] == pytest.approx(round(price / PRICES[kind]))
                assert price >= row["Mélange"]


def least_price(row: dict[str, Any], margin: float) -> float:
    """The cheapest machines that carry a row's load and a margin, by trying all numbers of them."""
    need, prices = row["rate"] * (1 + margin), []
    for name in row["carried"]:
        count, _, kind = name.rpartition(" x ")
        prices.append(int(count or 1) * PRICES[kind])
    # Figures are written with four digits.
    carried = [rate * (1 - 1e-4) for rate in row["carried"].values()]
    best = math.inf
    *others, last = [range(math.ceil(need / rate) + 1) for rate in carried]
    for counts in itertools.product(*others):
        left = need - sum(n * rate for n, rate in zip(counts, carried, strict=False))
        number = max(0, math.ceil(left / carried[-1]))
        if number in last:
            own = zip((*counts, number), prices, strict=True)
            best = min(best, sum(n * price for n, price in own))
    return best


def test_the_committed_prices_are_proven_and_played() -> None:
    rows = read_rows(decoder_prices.RESULTS)
    assert rows
    for row in rows:
        assert row["bound"] <= row["price"] and row["strain"] <= 1
        # Of all mixes that there are, without those that were played and broke the SLO.
        least = least_price(row, row["margin"])
        assert row["bound"] >= 0.999 * least_price(row, 0.0) and row["price"] >= 0.999 * least
        if row.get("broke") == 0 and row["gap"] == 0:
            assert row["bound"] == pytest.approx(least_price(row, 0.0), rel=1e-3)
        assert row["gap"] <= 0.02 or row["margin"] > 0
        assert row["melange_bound"] <= row["melange"] * (1 + 1e-3)
        assert row["melange_played"] is None or row["melange_played"] >= row["melange"]
    assert price_table(rows).count("\n") == len(rows) + 1
    clusters = json.loads(decoder_prices.HELIX.read_text(encoding="utf-8"))["rows"]
    assert helix_table(clusters).count("\n") == sum(bool(row["value"]) for row in clusters) + 1
