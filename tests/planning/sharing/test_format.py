"""Questions about a day: three ways to say a load, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.planning.sharing import parse_sharing_request
from tvm_hetero.planning.sharing.format import observed_rates

SLO = {"latency": {"p99": "60ms"}}


def document(**changes: Any) -> dict[str, Any]:
    return {
        "format": "tvm-hetero/sharing-request/1",
        "rates": [10, 20],
        "models": [
            {"name": "a", "model": "resnet50", "slo": SLO, "popularity": 0.25},
            {"name": "b", "model": "vit-base", "slo": SLO, "rates": [1, 0]},
        ],
        "machines": [{"name": "t4", "platform": "t4x4", "devices": ["cpu", "gpu0"],
                      "available": 2, "price": 0.5, "start": "90s", "loading": "2GB/s"}],
    } | changes  # fmt: skip


def test_loads_are_own_rates_or_a_part_of_all() -> None:
    request = parse_sharing_request(document(play={"seconds": "5s", "seed": 3}))
    assert [model.rates for model in request.models] == [(2.5, 5.0), (1.0, 0.0)]
    assert request.hours == 2 and request.seconds == 5 and request.seed == 3
    machine = request.machines[0]
    assert (machine.start, machine.loading, machine.offer.available) == (90.0, 2e9, 2)


def test_a_load_that_was_seen_is_counted_by_the_hour(tmp_path: Path) -> None:
    arrivals = [0.0, 10.0, 3600.0, 7199.0, 7200.0, 80000.0]
    rows = [{"arrival": t, "prompt": 1, "output": 1} for t in arrivals]
    (tmp_path / "seen.json").write_text(
        json.dumps({"format": "tvm-hetero/requests/1", "requests": rows})
    )
    models = [{"name": "a", "model": "resnet50", "slo": SLO, "trace": "seen.json"}]
    asked = document(models=models)
    del asked["rates"]
    rates = parse_sharing_request(asked, folder=tmp_path).models[0].rates
    assert len(rates) == 24
    assert [round(3600 * rate) for rate in rates[:4]] == [2, 2, 1, 0]
    # It ends 800 s into that hour, which is that much of one.
    assert rates[22] == pytest.approx(1 / 800)
    assert len(observed_rates([0.0, 25 * 3600.0])) == 26
    # One a second for fifty minutes; and one request alone is none a second.
    assert observed_rates([float(t) for t in range(3000)])[0] == pytest.approx(1.0, rel=1e-3)
    assert observed_rates([0.0])[0] == pytest.approx(1 / 600)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rates": [0, 0]}, "not all 0"),
        ({"rates": [1, -1]}, "requests a second of each hour"),
        ({"rates": "ten"}, "a list"),
        ({"play": {"seconds": 0}}, "seconds above 0"),
        ({"models": []}, "a name of its own"),
        ({"batches": [0]}, "at least 1"),
        ({"models": [{"name": "a", "model": "resnet50", "slo": SLO}]}, "one of 'rates'"),
        ({"models": [{"name": "a", "model": "resnet50", "popularity": 2, "slo": SLO}]}, "a part"),
        (
            {"models": [{"name": "a", "model": "resnet50", "popularity": 1,
                         "slo": {"ttft": {"p99": 1}}}]},
            "limits of the latency",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_its_place(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError, match=said):
        parse_sharing_request(document(**changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"price": 0}, "from 1e-06 to 1e\\+06 an hour.*got 0"),
        ({"price": 1e-9}, "from 1e-06 to 1e\\+06 an hour"),
        ({"start": 1e30}, "at most an hour.*got 1e\\+30"),
        ({"start": "2h"}, "start"),
        ({"loading": 1e-30}, "at least 1000 bytes a second, got 1e-30"),
    ],
)
def test_machines_that_nobody_could_have_are_refused(changes: dict[str, Any], said: str) -> None:
    machines = [document()["machines"][0] | changes]
    with pytest.raises(FormatError, match=said):
        parse_sharing_request(document(machines=machines))


def test_loads_that_are_not_what_they_say_are_refused() -> None:
    def refused(said: str, *models: dict[str, Any], **changes: Any) -> None:
        with pytest.raises((FormatError, UsageError), match=said):
            parse_sharing_request(document(models=list(models), **changes))

    first, own = document()["models"]
    refused("at most 1 together, got 1.8", first | {"popularity": 0.9},
            first | {"name": "c", "popularity": 0.9})  # fmt: skip
    refused("no one has a 'popularity'", own)
    refused("0 or at least 1e-06 requests", first | {"popularity": 5e-324}, own)
    refused("each 0 or from 1e-06", first, own | {"rates": [1, 1e-10]})
    refused("at most 1000000 requests", first, own | {"rates": [1000, 0]}, play={"seconds": 3600})
    refused("at most 100, got 101", *(first | {"name": f"m{i}"} for i in range(101)))


def test_days_of_unlike_lengths_and_too_many_machines_are_refused() -> None:
    models = document()["models"]
    models[1]["rates"] = [1, 2, 3]
    with pytest.raises(UsageError, match="2 hours and 'b' of 3"):
        parse_sharing_request(document(models=models))
    machines = document()["machines"]
    machines[0]["available"] = 101
    with pytest.raises(UsageError, match="at most 100 in all"):
        parse_sharing_request(document(machines=machines))
    without = document()
    del without["rates"]
    with pytest.raises(FormatError, match="rates' of all models"):
        parse_sharing_request(without)
