"""The benchmarks of whole plans: their small modes, and what their page makes of results."""

from __future__ import annotations

import json
import math
import os
from concurrent.futures import Future

import numpy as np
import onnx
import pytest

from benchmarks import (
    big_little,
    disturbed,
    disturbed_team,
    latency,
    soak,
    steady_state,
    widths,
)
from benchmarks.execution import page
from benchmarks.execution.callers import result_of
from benchmarks.execution.cases import TINY, make_model, with_batch
from benchmarks.execution.compare import Row
from benchmarks.execution.pinned import common_rate
from benchmarks.execution.usage import in_use
from tvm_hetero.cli.shared.measure import OnnxRuntime


def test_steady_state_small(capsys):
    (row,) = steady_state.main(["--small"])
    assert row.model == TINY
    assert set(row.median) == set(row.best) == set(steady_state.SIDES)
    assert all(0 < row.median[side] <= row.best[side] for side in steady_state.SIDES)
    assert row.over_single == row.median["plan"] / row.median["single"]
    assert row.over_copies == row.median["plan"] / row.median["copies"]
    assert 0 < row.predicted <= row.bound * (1 + 1e-9)
    assert row.difference < 1e-3
    printed = capsys.readouterr().out
    assert "ORT 2 pr." in printed and "goal 1.9" in printed


def test_disturbed_small(tmp_path):
    (row,) = disturbed.main(["--small", "--output", str(tmp_path / "disturbed.json")])
    assert row.model == TINY and row.difference < 1e-3
    assert set(row.quiet) == set(row.disturbed) == set(disturbed.SIDES)
    assert all(row.quiet[side] > 0 and row.disturbed[side] > 0 for side in disturbed.SIDES)
    document = json.loads((tmp_path / "disturbed.json").read_text(encoding="utf-8"))
    text = page.SECTIONS["disturbed"](document)
    (kept,) = document["rows"]
    assert f"| {TINY} | {kept['quiet']['plan']:.1f} → {kept['disturbed']['plan']:.1f} (" in text


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_disturbed_team_small(tmp_path, capsys):
    rows = disturbed_team.main(["--small", "--output", str(tmp_path / "disturbed.json")])
    assert [row.side for row in rows] == list(disturbed_team.SIDES)
    assert all(row.difference < 1e-3 for row in rows)
    assert all(0 < row.median_s <= row.last_s and row.quiet_s > 0 for row in rows)
    assert capsys.readouterr().out.count("kept") == len(rows)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_widths_small(tmp_path, capsys):
    (row,) = widths.main(["--small", "--output", str(tmp_path / "widths.json")])
    (kept,) = json.loads((tmp_path / "widths.json").read_text(encoding="utf-8"))["rows"]
    assert kept["model"] == row.model == TINY
    assert row.difference < 1e-3
    assert min(row.plan_s, row.all_s, row.each_s, row.one_s, row.ort_s) > 0
    assert row.bound_s <= row.predicted_s
    assert "plan over one core" in capsys.readouterr().out


def test_latency_small(tmp_path, capsys):
    (row,) = latency.main(["--small", "--output", str(tmp_path / "latency.json")])
    (kept,) = json.loads((tmp_path / "latency.json").read_text(encoding="utf-8"))["rows"]
    assert kept["mode"]["handover_s"] == pytest.approx(row.mode.handover_s, rel=1e-3)
    assert (row.model, row.objective, row.batch) == (TINY, "latency", 2)
    _plausible(row)
    assert "goal 5" in capsys.readouterr().out


def test_big_little_small():
    targets = [device.target for device in big_little.big_and_little().devices]
    assert [target["mcpu"] == big_little.LITTLE for target in targets] == [False, True]
    rows = big_little.main(["--small"])
    assert [(row.objective, row.batch) for row in rows] == [("latency", 2), ("throughput", 2)]
    for row in rows:
        _plausible(row)
        # Not always the big one: kernels this small are as quick on both.
        assert row.single_device in {"cpu0", "cpu1"}


def _plausible(row: Row) -> None:
    assert row.difference < 1e-3
    assert 0 < row.bound_s <= row.predicted_s * (1 + 1e-9)
    assert row.predicted_s <= row.single_predicted_s * (1 + 1e-9)
    assert set(row.devices) <= {"cpu0", "cpu1"}
    for side in ("plan", "single", "ort"):
        assert 0 < getattr(row, f"{side}_s") <= getattr(row, f"{side}_median_s") < math.inf
    assert row.possible >= row.speed_up * row.plan_median_s / row.bound_s * (1 - 1e-9)


@pytest.mark.parametrize("how", [[], ["--teams"], ["--switch"]])
def test_soak_small(how, tmp_path, capsys):
    if how and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    found = soak.main(["--small", *how, "--output", str(tmp_path / "soak.json")])
    assert found.errors == []
    assert (found.wrong, found.lost) == (0, 0)
    assert found.submitted == sum(found.counts.values()) > soak.CALLERS
    assert found.counts["done"] > 0 and found.counts["cancelled"] > 0
    assert (found.switches > 5) == ("--switch" in how)
    assert found.allocations == 0 or found.switches
    assert found.more_threads == 0 or found.switches
    assert len(found.rests) > 5
    # In seconds threads have not yet filled their stores, least of all on a busy machine.
    few = found.submitted < 2000 or found.switches
    assert found.heap_growth < 100 or few
    assert found.block_growth < 0.1 or few
    assert found.samples[0].finished < found.samples[-1].finished <= found.submitted
    assert "lost: 0" in capsys.readouterr().out
    assert '"callers": 8' in (tmp_path / "soak.json").read_text(encoding="utf-8")


def test_a_wait_in_vain_is_not_the_last_and_a_request_that_never_ends_is_lost():
    """A process that was stopped finds its wait over, though nothing could end meanwhile."""
    pending = Future()
    waits = iter([lambda: None, lambda: pending.set_result(["outputs"])])
    pending.result = lambda seconds: (next(waits)(), Future.result(pending, seconds))[1]
    assert result_of(pending, waits=2, seconds=0.001) == ["outputs"]
    with pytest.raises(TimeoutError):
        result_of(Future(), waits=2, seconds=0.001)


def test_what_requests_leave_behind_is_seen():
    before, kept = in_use(), []
    for i in range(1000):
        kept += [bytearray(4096), [i]]
    after = in_use()
    assert 4096 * 1000 <= after.heap_bytes - before.heap_bytes < 5000 * 1000
    assert 3000 <= after.python_blocks - before.python_blocks < 5000
    kept.clear()
    assert in_use().heap_bytes - before.heap_bytes < 100_000
    rests = [(10 * i, 500 + 30 * i) for i in range(9)]
    assert soak.growth_per_request(rests) == 3.0
    assert soak.growth_per_request([(10, 5), (10, 5)]) == 0.0


def test_a_randomly_wired_network_keeps_the_size_of_its_activations():
    model = make_model(TINY)
    onnx.checker.check_model(model, full_check=True)
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    (logits,) = OnnxRuntime(model, 1).outputs({"input": x})
    assert logits.shape == (1, 1000)
    assert 0.05 < logits.std() < 20


def test_a_model_of_a_batch_gives_what_its_elements_give():
    model = make_model(TINY)
    x = np.random.default_rng(0).standard_normal((3, 3, 32, 32)).astype(np.float32)
    (whole,) = OnnxRuntime(with_batch(model, 3), 1).outputs({"input": x})
    one = OnnxRuntime(model, 1)
    each = [one.outputs({"input": x[e : e + 1]})[0] for e in range(3)]
    np.testing.assert_allclose(whole, np.concatenate(each), rtol=1e-4, atol=1e-5)


def test_rates_are_those_of_the_window_in_which_all_work():
    quick, slow = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [1.5, 3.5, 5.5]
    # From 1.5 to 5: the quick one ends a run a second, the slow one every two.
    assert common_rate([quick, slow]) == pytest.approx(1.5)
    assert common_rate([[0.0, 1.0, 2.0], [10.0, 12.0]]) == pytest.approx(1.5)


HEAD = {
    "machine": "M", "cores": 2, "load": 0.0, "target": {"mcpu": "znver5"}, "versions": {"tvm": "1"},
}  # fmt: skip
MODE = {"handover_s": 2.5e-7, "crossing_bps": 1e10, "moved": False}
RATES = {
    "single": 10.0, "plan": 19.5, "copies": 19.75, "threads": 15.0, "ort_threads": 18.0,
    "ort_batches": 20.0, "ort_processes": 16.0, "ort_process_batches": 17.0,
}  # fmt: skip
TIMES = {
    "bound_s": 1e-3, "predicted_s": 1.25e-3, "plan_median_s": 1.5e-3, "single_median_s": 2e-3,
    "ort_median_s": 3e-3, "others": 0.0, "unrest": 0.042, "model": "net", "batch": 8,
    "objective": "latency", "mode": {**MODE, "moved": True},
}  # fmt: skip
FOUND = {
    "steady_state": {
        **HEAD, "rounds": 7, "seconds": 1.5, "batch": 2,
        "rows": [{"model": "net", "median": RATES, "predicted": 20.0, "others": 0.0, "mode": MODE}],
    },
    "latency": {**HEAD, "rows": [TIMES]},
    "big_little": {**HEAD, "little": "x86-64-v2", "rows": [TIMES]},
    "dispatch": {
        **HEAD, "runs": 200, "segments": 500,
        "rows": [
            {"what": what, "runner": "executor", "workers": workers, "best": best, "median": 3.0,
             "p99": 4.0}
            for what, workers, best in (
                ("segment, foreign", 1, 0.5), ("segment, 1 kernel", 1, 0.25),
                ("segment, foreign", 2, 6.0), ("kernel call", 1, 0.1),
            )
        ],
    },
    "soak": {
        **HEAD, "callers": 8, "model": "net", "seconds": 600.0, "submitted": 100, "wrong": 0,
        "lost": 1, "growth": 0.002, "allocations": 0, "more_threads": 0.0,
        "counts": {"done": 90, "cancelled": 6, "late": 3},
        "rows": [{"rss_bytes": 2**20 * size, "threads": 13} for size in (300, 301)],
        "rests": [{"heap_bytes": 2**20 * size} for size in (70, 71)],
        "heap_growth": 0.25, "block_growth": 0.5,
    },
}  # fmt: skip


def test_every_goal_is_printed_beside_what_was_reached():
    assert [(wanted, reached, met) for _, wanted, reached, met in page.goals(FOUND)] == [
        ("≥ 1.9", "1.95 (net), mean 1.95", "yes"),
        ("≥ 1", "0.97 (net), mean 0.97", "**no**"),
        ("≤ 5 %", "20.0 %", "**no**"),
        ("≤ 10 %", "20.0 %", "**no**"),
        ("< 2 µs", "0.50 µs", "yes"),
        ("< 5 µs", "6.00 µs", "**no**"),
        ("0", "1", "**no**"),
        ("0", "0", "yes"),
        ("< 1", "+0.25", "yes"),
        ("< 0.01", "+0.5000", "**no**"),
        ("≤ 1 %", "+0.20 %", "yes"),
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("steady_state", "| 19.8 | 15.0 | 18.0 | 20.0 | 16.0 | 17.0 | 1.95 | 0.99 | 0.97 |"),
        ("latency", "| +20.0 % | 1.50 | 2.00 | 1.33 | 3.00 | 0.0 | 4 % | 0.25 (changed) |"),
        ("big_little", "| net | latency | 8 | 2.00 | 1.00 | 1.25 | 1.50 | 1.33 | 2.00 | 3.00 |"),
        ("dispatch", "| kernel call | executor | 1 | 0.10 | 3.00 | 4.00 |"),
        ("soak", "90 done, 6 cancelled, 3 late; 0 wrong or out of order, 1 lost."),
    ],
)  # fmt: skip
def test_the_page_tells_what_was_measured(name, line):
    text = page.SECTIONS[name](FOUND[name])
    assert line in text
    assert text.startswith("## ")


def test_a_row_from_before_the_unrest_was_looked_at_has_a_dash():
    old = {key: value for key, value in FOUND["latency"]["rows"][0].items() if key != "unrest"}
    text = page.SECTIONS["latency"]({**FOUND["latency"], "rows": [old]})
    assert "| 0.0 | – | 0.25 (changed) |" in text


def test_a_row_without_copies_is_shown_without():
    rates = {side: rate for side, rate in RATES.items() if side != "copies"}
    document = FOUND["steady_state"]
    (row,) = document["rows"]
    text = page.SECTIONS["steady_state"]({**document, "rows": [{**row, "median": rates}]})
    assert "| 20.0 | – | 15.0 | 18.0 | 20.0 | 16.0 | 17.0 | 1.95 | – | 0.97 |" in text
    assert "M, 2 cores, load 0.0, target `znver5`; tvm 1." in text
