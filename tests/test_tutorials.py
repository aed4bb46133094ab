"""The tutorials run and what they tell is true."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.frontends.onnx.models import two_branches
from tutorials import (
    adapt_a_stream,
    choose_machines,
    compare_policies,
    decode_on_two_cores,
    plan_gpt3_on_six_servers,
    serve_two_models,
)
from tutorials.partition_an_onnx_model import main


@pytest.fixture
def small_model(tmp_path: Path) -> Path:
    """A model that is compiled and measured in seconds, in place of SqueezeNet."""
    onnx.save(two_branches(), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def test_partition_an_onnx_model(small_model: Path, tmp_path: Path, capsys):
    difference = main(small_model, tmp_path / "net.hetero")
    told = capsys.readouterr().out
    assert difference < 1e-3
    assert "the instrument saw the pass: True" in told
    assert "vdevice" in told or "R.call_tir" in told
    assert [line[0] for line in told.splitlines() if line[:1].isdigit()] == sorted(
        line[0] for line in told.splitlines() if line[:1].isdigit()
    )
    assert (tmp_path / "net.hetero" / "manifest.json").is_file()


def test_decode_on_two_cores(tmp_path: Path, capsys):
    made = decode_on_two_cores.main(
        target=tmp_path / "net.hetero", cost_model="analytical", time_limit=1
    )
    told = capsys.readouterr().out
    assert [len(each.tokens) for each in made if each.reason == "limit"]
    assert "devices that work in a step: cpu0, cpu1" in told
    assert "streamed, the same: True" in told
    assert "the same among five others: True" in told


def test_plan_gpt3_on_six_servers(capsys):
    slow, many = plan_gpt3_on_six_servers.main()
    told = capsys.readouterr().out.splitlines()
    assert slow.schedule.gap <= 0.01
    assert many.tokens_per_second > 5 * slow.tokens_per_second
    assert [line[0] for line in told if line[0] != " "] == list("123334566")
    assert any("720 exchanges" in line for line in told)
    assert "Not saturated" in told[-3] and "Saturated" in told[-1]


def test_choose_machines(tmp_path: Path, capsys):
    answer = choose_machines.main(page=tmp_path / "made" / "choice.html")
    told = capsys.readouterr().out.splitlines()
    assert "".join(dict.fromkeys(line[0] for line in told if line[0] != " ")) == "12345"
    assert answer.choice.gap <= 0.02 and all(each.holds for each in answer.choice.played)
    assert answer.choice.accuracies[1] == 76.13  # the night wants better tags
    drawn = (tmp_path / "made" / "choice.html").read_text(encoding="utf-8")
    assert drawn.count("<circle") == len(answer.front) + 1


def test_adapt_a_stream(small_model: Path, tmp_path: Path, capsys):
    story = adapt_a_stream.main(
        small_model, tmp_path / "net.hetero", seconds=0.8, cost_model="quick"
    )
    told = capsys.readouterr().out
    assert [line[0] for line in told.splitlines() if line[:1].isdigit()] == list("12345")
    assert set(story.static) == set(story.adapted) == set(adapt_a_stream.PHASES)
    assert min(*story.static.values(), *story.adapted.values()) > 0
    assert story.difference < 1e-3
    # On a machine that is busy elsewhere a policy may not have seen a whole window.
    assert story.failure is None
    told = [event.configuration for event in story.events]
    assert all("@cpu" in each or each.startswith("the artifact's own plan") for each in told)


def test_compare_policies(tmp_path: Path, capsys):
    figures = compare_policies.main(page=tmp_path / "made" / "policies.html")
    told = capsys.readouterr().out.splitlines()
    assert "".join(dict.fromkeys(line[0] for line in told if line[0] != " ")) == "123456"
    # What the tutorial says of the policies is what its recording shows; a replay has no chance.
    assert figures["resolve"].disturbed > 1.3 * figures["static"].disturbed
    assert figures["resolve"].recovery < figures["odin"].recovery
    assert figures["resolve"].trials < figures["odin"].trials
    assert "</svg>" in (tmp_path / "made" / "policies.html").read_text(encoding="utf-8")


def test_serve_two_models(tmp_path: Path, capsys):
    found = serve_two_models.main(folder=tmp_path, seconds=1.0, cost_model="quick")
    told = capsys.readouterr().out.splitlines()
    assert "".join(dict.fromkeys(line[0] for line in told if line[0] != " ")) == "123456"
    assert found.status == 0
    for name in serve_two_models.MODELS:
        asked, cores = found.asked[name], found.cores[name]
        assert asked.ends["answered"] == len(asked.seconds) > 0
        assert set(asked.ends) <= {"answered", "deadline"}  # each was told why
        assert sum(cores) > 0
        # Both models together never had more of a core than there is.
    assert max(map(sum, zip(*found.cores.values(), strict=True))) < 60
    assert any("SLO" in line for line in told)
