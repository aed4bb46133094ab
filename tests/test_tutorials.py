"""The tutorials run and what they tell is true."""

from __future__ import annotations

from pathlib import Path

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
