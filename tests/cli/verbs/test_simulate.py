from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tvm_hetero import zoo
from tvm_hetero.problem import Objective
from tvm_hetero.solvers import Options, solve

SMALL = ("gpt2-xl", "--platform", "diviml:2", "--set", "layers=6", "--context", "256",
         "--in-flight", "2", "--batch", "2", "--time-limit", "1", "--gap", "0.5")  # fmt: skip
LOAD = ("--prompt", "uniform:10:100", "--output", "lognormal:20:0.5", "--chunk", "64",
        "--seconds", "20")  # fmt: skip


def test_tells_rates_times_shares_and_what_is_saturated() -> None:
    result = tvm_hetero("simulate", *SMALL, *LOAD, "--arrivals", "2")
    assert result.status == 0
    for text in ("output tokens a second", "time to first token", "time per output token", "p99",
                 "slots taken", "n0.v100", "aturated:"):  # fmt: skip
        assert text in result.out


def test_more_than_fits_saturates() -> None:
    words = ("simulate", *SMALL, *LOAD, "--seconds", "6", "--json", "--arrivals")
    low, high = (json.loads(tvm_hetero(*words, rate).out) for rate in ("1", "200"))
    assert low["saturated"].startswith("Not saturated")
    assert high["saturated"].startswith("Saturated")
    assert high["waiting"] > 0 and high["slots_taken"] > 0.9 * high["slots"]
    assert high["tokens_per_second"] > low["tokens_per_second"]
    assert high["time_to_first_token"]["p50"] > low["time_to_first_token"]["p50"]
    assert low["latency"]["p50"] <= low["latency"]["p90"] <= low["latency"]["p99"]


def test_a_seed_repeats() -> None:
    words = ("simulate", *SMALL, *LOAD, "--arrivals", "3", "--json", "--seed")
    first, again, other = (tvm_hetero(*words, seed).out for seed in ("1", "1", "2"))
    assert first == again != other


def test_a_trace_and_a_plan_that_was_made_before(tmp_path: Path) -> None:
    trace, schedule = tmp_path / "trace.json", tmp_path / "schedule.json"
    rows = [{"arrival": 0.1 * i, "prompt": 20 + i, "output": 5} for i in range(10)]
    trace.write_text(json.dumps({"format": "tvm-hetero/requests/1", "requests": rows}))
    plain = SMALL[: SMALL.index("--time-limit")]
    goal = ("--objective", "throughput")
    assert tvm_hetero("plan", *SMALL, *goal, "-o", schedule).status == 0
    result = tvm_hetero(
        "simulate", *plain, *goal, "--schedule", schedule, "--arrivals", trace, "--json"
    )
    found = json.loads(result.out)
    assert (found["requests"], found["cut"], found["window"][1]) == (10, 0, rows[-1]["arrival"])
    other = tvm_hetero("simulate", *plain, "--schedule", schedule, "--shards", "5")
    assert other.status == 2
    assert "the schedule answers another problem" in other.err


def test_requests_that_do_not_fit_are_cut_and_counted() -> None:
    result = tvm_hetero(
        "simulate", *SMALL, "--arrivals", "2", "--prompt", "300", "--output", "10", "--seconds", "5"
    )
    assert "asked for more tokens than the caches have rows" in result.out


def test_a_folder_with_a_decoder(tmp_path: Path) -> None:
    """Its problems may come from anywhere; here from the zoo."""
    for name, tokens, batch in (("step", 1, 2), ("prefill", 16, 1)):
        problem = zoo.problem("gpt2-small", "diviml", Objective("latency", batch), layers=2,
                              tokens=tokens)  # fmt: skip
        (tmp_path / name).mkdir()
        problem.save(tmp_path / name / "problem.json")
        solve(problem, "heft", Options(time_limit=1.0)).save(tmp_path / name / "schedule.json")
    described = {"format": "tvm-hetero/decoder/1", "length": 128, "batch": 2, "groups": 3,
                 "chunk": 16, "family": "gpt2"}  # fmt: skip
    (tmp_path / "decoder.json").write_text(json.dumps(described))
    result = tvm_hetero("simulate", tmp_path, "--arrivals", "20", "--prompt", "40", "--output",
                        "8", "--seconds", "5", "--json")  # fmt: skip
    found = json.loads(result.out)
    assert found["slots"] == 6
    assert found["chunks"] >= 2 * found["requests"] * 0.8
    (tmp_path / "decoder.json").write_text(json.dumps(described | {"batch": 3}))
    assert "build it again" in tvm_hetero("simulate", tmp_path).err


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["gpt3-175c"], "did you mean 'gpt3-175b'?"),
        ([*SMALL, "--arrivals", "often"], "expected requests a second above 0, or TRACE.json"),
        ([*SMALL, "--arrivals", "0"], "expected requests a second above 0, or TRACE.json"),
        ([*SMALL, "--arrivals", "-1"], "above 0"),
        ([*SMALL, "--arrivals", "nowhere.json"], "cannot be read"),
        ([*SMALL, "--prompt", "long"], "--prompt: expected a length"),
        ([*SMALL, "--output", "uniform:9:1"], "--output: expected a length"),
        ([*SMALL, "--seconds", "0"], "above 0"),
        ([*SMALL, "--warmup", "700"], "expected a warm-up"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(args: list[str], text: str) -> None:
    result = tvm_hetero("simulate", *args)
    assert result.status == 2
    assert text in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_does_not_import_tvm() -> None:
    words = ["simulate", *SMALL, *LOAD]
    code = (
        "import sys\nfrom tvm_hetero.cli.main import main\n"
        f"status = main({words!r})\n"
        "print(status, sorted(m for m in sys.modules if m.split('.')[0] in ('tvm', 'onnx')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout.splitlines()[-1] == "0 []"
