"""The benchmark of the server runs: a tiny model is asked in both forms."""

from __future__ import annotations

import pytest

from benchmarks import serve_overhead


def test_a_small_run_asks_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    path = serve_overhead.RESULTS
    before = path.read_bytes() if path.exists() else None
    rows = serve_overhead.main(["--small"])
    assert [(row.server, row.form) for row in rows] == [
        (server, form) for server in ("ours", "tornado") for form in ("json", "binary")
    ]
    for row in rows:
        assert 0 < row.cpu_us < row.p50_us * 10 and row.p50_us <= row.p99_us
        assert row.requests_s > 0 and len(row.times) >= 3
    assert capsys.readouterr().out.splitlines()[-1] == serve_overhead.line_of(rows[-1])
    assert before == (path.read_bytes() if path.exists() else None)
