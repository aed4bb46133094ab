"""The benchmark of decoding: its small mode, and what its page makes of results."""

from __future__ import annotations

import json

import pytest

from benchmarks import decode
from benchmarks.decoding import page
from benchmarks.decoding.contenders import Run


def test_decode_small(tmp_path, capsys):
    rows, (exact,) = decode.main(["--small", "--output", str(tmp_path / "decode.json")])
    document = json.loads((tmp_path / "decode.json").read_text(encoding="utf-8"))
    sides = ["one core", "two devices, three groups", "PyTorch, 1 thread"]
    assert [row.side for row in rows] == [row["side"] for row in document["rows"]] == sides
    assert all(0 < row.tokens_s <= row.best_s for row in rows)
    assert all(row.prompt_s > 0 for row in rows)
    # Ours and theirs round in other places: the tokens need not be, but mostly are the same.
    assert all(row.same > 0.5 for row in rows)
    assert rows[0].same == rows[1].same == 1
    assert all(row.read_gbs > 0 and row.both_read_gbs > 0 for row in rows)
    assert document["what"] == "python -m benchmarks.decode --small"
    assert 1e-5 < exact.error < 0.1
    assert exact.same > 0.8
    assert [row["error"] for row in document["accuracy"]] == [pytest.approx(exact.error, rel=1e-3)]
    assert "goal 1.8 at batch 8" in capsys.readouterr().out
    assert "### bfloat16" in page.SECTIONS["decode"](document)


def test_the_file_says_by_which_options_it_was_made() -> None:
    settings = decode.Settings("net", decode.WEIGHTS, (1,), ("one core", "teams"), False)
    asked = 'python -m benchmarks.decode --batches "1" --sides "one core;teams"'
    assert settings.command() == asked


def _row(side: str, tokens: float, batch: int = 8):
    return {
        "weights": "int8", "batch": batch, "side": side, "tokens_s": tokens, "best_s": 2 * tokens,
        "predicted_s": 3 * tokens, "prompt_s": 100.0, "same": 0.5, "others": 0.1, "build_s": 1.0,
        "unrest": 0.04,
    }  # fmt: skip


FOUND = {
    "model": "net", "prompt": 8, "length": 40, "rounds": 3, "torch": "9.9", "machine": "a machine",
    "cores": 2, "load": 0.5, "versions": {"tvm": "1"}, "target": {"mcpu": "znver5"},
    "rows": [
        _row("one core", 10.0), _row("two devices, three groups", 17.0),
        _row("two devices, halves of layers", 19.0), _row("one core", 5.0, 1),
    ],
    "accuracy": [{"weights": "int8", "error": 0.0123, "same": 0.9, "tokens": 64}],
}  # fmt: skip


def test_unrest_is_that_of_our_sides():
    def runs(*rates):
        return [Run(rate, 1.0, []) for rate in rates]

    steady, uneasy = runs(9.0, 10.0, 10.0), runs(5.0, 8.0, 10.0)
    assert decode._unrest({"one core": steady, "PyTorch, 1 thread": uneasy}) == 0
    found = decode._unrest({"one core": steady, "two devices, three groups": uneasy})
    assert found == pytest.approx(0.25)


def test_the_page_of_decoding_tells_what_was_measured():
    text = page.SECTIONS["decode"](FOUND)
    assert (
        "| 8 | two devices, halves of layers | 19.0 (38.0) | 57.0 | 1.90 | 100 | 50 % | 0.1 | 4 % |"
        in text
    )
    assert "| int8 | 1.23e-02 | 90.0 % |" in text
    (line,) = page.GOALS["decode"](FOUND)
    assert line[1:] == ["≥ 1.8", "1.90", "yes"]
    assert page.gains(FOUND["rows"]) == {("int8", 8): 1.9}
