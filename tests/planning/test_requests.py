"""Requests: drawn with seeds, read from traces, cut to the caches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.planning.requests import (
    ServiceRequest,
    load_trace,
    parse_lengths,
    poisson,
    truncate_requests,
)

TEN = parse_lengths("10")


def test_arrivals_are_poisson():
    requests = poisson(50.0, 400.0, TEN, TEN, seed=3)
    gaps = np.diff([0.0, *(r.arrival for r in requests)])
    assert len(requests) == pytest.approx(20_000, rel=0.03)
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 50, rel=0.05)  # exponential: deviation = mean
    assert gaps.min() >= 0 and requests[-1].arrival < 400


@pytest.mark.parametrize(
    ("text", "mean", "deviation"),
    [("64", 64, 0), ("uniform:10:50", 30, 41 / 12**0.5), ("lognormal:200:0.5", 200, 106.6)],
)
def test_lengths(text: str, mean: float, deviation: float):
    lengths = parse_lengths(text)
    drawn = lengths.draw(40_000, np.random.default_rng(0))
    assert lengths.mean == mean
    assert drawn.mean() == pytest.approx(mean, rel=0.02)
    assert drawn.std() == pytest.approx(deviation, rel=0.04)
    assert drawn.min() >= 1


def test_seeds_repeat_and_rates_leave_lengths_alone():
    wide = parse_lengths("uniform:1:1000")
    first, again, other = (poisson(5.0, 20.0, wide, wide, seed) for seed in (1, 1, 2))
    assert first == again != other
    quicker = poisson(10.0, 20.0, wide, wide, 1)
    count = len(first)
    assert [(r.prompt, r.output) for r in quicker[:count]] != []
    assert quicker[0].arrival == pytest.approx(first[0].arrival / 2)


def test_prompts_and_outputs_are_drawn_apart():
    wide = parse_lengths("uniform:1:1000")
    requests = poisson(5.0, 100.0, wide, wide, 1)
    prompts, outputs = ([getattr(r, key) for r in requests] for key in ("prompt", "output"))
    assert abs(np.corrcoef(prompts, outputs)[0, 1]) < 0.2


def test_a_trace_is_read_in_the_order_of_arrival(tmp_path: Path):
    path = tmp_path / "trace.json"
    rows = [{"arrival": 2.5, "prompt": 3, "output": 4}, {"arrival": 0.5, "prompt": 1, "output": 2}]
    path.write_text(json.dumps({"format": "tvm-hetero/requests/1", "requests": rows}))
    assert load_trace(path) == (ServiceRequest(0.5, 1, 2), ServiceRequest(2.5, 3, 4))


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        ([], "expected a list of 1 to"),
        ([{"arrival": 1.0, "prompt": 0, "output": 1}], "request 0: prompt: expected"),
        ([{"arrival": -1.0, "prompt": 1, "output": 1}], "arrival"),
        ([{"arrival": 1.0, "prompt": 1}], "'output' is missing"),
        ([{"arrival": 1.0, "prompt": 1, "output": 1, "x": 1}], "unknown key 'x'"),
    ],
)
def test_wrong_traces_are_refused(requests: list, text: str, tmp_path: Path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"format": "tvm-hetero/requests/1", "requests": requests}))
    with pytest.raises(FormatError, match=text):
        load_trace(path)


@pytest.mark.parametrize(
    "text", ["0", "-3", "x", "uniform:5", "uniform:9:3", "uniform:0:3", "normal:3:4",
             "lognormal:0:1", "lognormal:nan:1", "5:6", "1e9:2", ""],
)  # fmt: skip
def test_wrong_lengths_are_refused(text: str):
    with pytest.raises(UsageError, match="--prompt: expected a length"):
        parse_lengths(text, "--prompt")


def test_too_much_is_refused():
    with pytest.raises(UsageError, match="above 0"):
        poisson(0.0, 10.0, TEN, TEN)
    with pytest.raises(UsageError, match="simulate fewer seconds"):
        poisson(1e6, 1e6, TEN, TEN)


def test_what_does_not_fit_into_the_caches_is_cut():
    requests = [
        ServiceRequest(0.0, 10, 5),
        ServiceRequest(0.0, 90, 50),
        ServiceRequest(0.0, 200, 5),
    ]
    fitting, count = truncate_requests(requests, 100)
    assert fitting == (requests[0], ServiceRequest(0.0, 90, 11), ServiceRequest(0.0, 100, 1))
    assert count == 2
