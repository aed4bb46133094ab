"""The tutorials run and what they tell is true."""

from __future__ import annotations

from pathlib import Path

from tutorials import decode_on_two_cores
from tutorials.partition_an_onnx_model import main


def test_partition_an_onnx_model(tmp_path: Path, capsys):
    difference = main(target=tmp_path / "net.hetero")
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
