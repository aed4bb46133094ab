from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero

SMALL = ("--set", "layers=4", "--context", "256")


def test_tells_partition_figures_and_symmetry() -> None:
    result = tvm_hetero("plan", "gpt3-175b", "--platform", "platforms/gpt3-6node.yaml")
    assert result.status == 0
    for text in ("n0.v100", "layers", "predicted tokens a second", "lower bound", "gap",
                 "Symmetry: 720 ways", "no device can do it alone"):  # fmt: skip
        assert text in result.out
    # Piped, too, it says what it does and why it stopped.
    assert "     asking count-dp\n" in result.err and result.err.count("stopped: ") == 1


def test_writes_what_check_and_show_read(tmp_path: Path) -> None:
    schedule, problem, page = (tmp_path / name for name in ("s.json", "p.json", "p.html"))
    result = tvm_hetero(
        "plan", "gpt2-xl", "--platform", "diviml:2", *SMALL, "-o", schedule, "--problem", problem,
        "--html", page,
    )  # fmt: skip
    assert result.status == 0 and result.out.count("wrote") == 3
    assert tvm_hetero("check", problem, schedule).status == 0
    assert tvm_hetero("show", schedule, "--problem", problem).status == 0
    assert "tokens a second" in page.read_text(encoding="utf-8")


def test_json_for_machines() -> None:
    result = tvm_hetero(
        "plan", "llama3-8b", "--platform", "t4x4:2", "--objective", "throughput", "--batch", "8",
        "--shards", "2", "--weights", "int8", *SMALL, "--json", "--time-limit", "1",
    )  # fmt: skip
    found = json.loads(result.out)
    assert found["in_flight"] >= 1 and found["batch"] == 8
    assert found["tokens_per_second"] <= 1.01 * found["tokens_per_second_at_best"]
    assert found["tokens_per_second_at_best"] == pytest.approx(
        8 / max(found["period"], found["pass_seconds"] / found["in_flight"])
    )
    assert found["parameters"]["weights"] == "int8"
    assert all(row["memory"] <= row["capacity"] for row in found["devices"])
    assert found["symmetry"]["exchanges"] > 1


def test_a_memory_that_computes_takes_the_products_of_a_finer_grain() -> None:
    words = ("plan", "llama2-7b", "--platform", "hbm-pim", "--set", "layers=2", "--json")
    whole, fine = (json.loads(tvm_hetero(*words, "--grain", g).out) for g in ("halves", "products"))
    held = [{row["device"]: row["holds"] for row in each["devices"]} for each in (whole, fine)]
    assert "pim" not in held[0]
    assert "down 0-1" in held[1]["pim"] and "softmax" not in held[1]["pim"]
    assert fine["tokens_per_second"] > whole["tokens_per_second"] and fine["gap"] <= 0.01


def test_many_devices_are_cut_short_and_all_can_be_asked_for(monkeypatch) -> None:
    monkeypatch.setattr("tvm_hetero.report.planning.decoder.MOST_ROWS", 8)
    words = ("plan", "gpt3-175b", "--platform", "gpt3-6node")
    short, every = tvm_hetero(*words), tvm_hetero(*words, "--all")
    assert "n1.t4" in short.out and "n2.cpu" not in short.out
    assert "... and 12 devices more (--all or" in short.out
    assert "n5.t4" in every.out and "more (--all" not in every.out


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["gpt3-175c"], "did you mean 'gpt3-175b'?"),
        (["resnet50"], "resnet50 is no decoder of the zoo"),
        (["gpt3-175b", "--platform", "divimal"], "did you mean"),
        (["gpt3-175b", "--objective", "energy"], "expected latency or throughput"),
        (["kimi-k2", "--shards", "2"], "--shards: kimi-k2 cannot be cut that way"),
        (["gpt3-175b", "--weights", "int3"], "did you mean 'int"),
        (["gpt3-175b", "--grain", "sand"], "expected one of halves, attention, products"),
        (["mixtral-8x7b", "--grain", "products"], "--grain: mixtral-8x7b cannot be cut that way"),
        (["gpt3-175b", "--set", "layer=3"], "did you mean 'layers'?"),
        (["gpt3-175b", "-o", "/nowhere/s.json"], "there is no folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(args: list[str], text: str) -> None:
    result = tvm_hetero("plan", *args)
    assert result.status == 2
    assert text in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_what_does_not_fit_says_by_how_much() -> None:
    result = tvm_hetero("plan", "gpt3-175b", "--platform", "diviml")
    assert result.status == 3
    assert "GiB" in result.err


def test_does_not_import_tvm() -> None:
    code = (
        "import sys\nfrom tvm_hetero.cli.main import main\n"
        "status = main(['plan', 'gpt2-small', '--platform', 'diviml'])\n"
        "print(status, sorted(m for m in sys.modules if m.split('.')[0] in ('tvm', 'onnx')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout.splitlines()[-1] == "0 []"
