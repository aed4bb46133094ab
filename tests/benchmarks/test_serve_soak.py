"""The server's soak in small, and what wrk prints."""

from __future__ import annotations

import pytest

from benchmarks import serve_clients, serve_soak
from benchmarks.serve_soaking.clients import LOST, UNTOLD


def test_at_twice_its_capacity_a_server_loses_nothing_and_tells_all(tmp_path, capsys):
    found = serve_soak.main(["--small", "--output", str(tmp_path / "soak.json")])
    assert sum(found.ends.values()) == found.requests > 50
    assert (found.ends[LOST], found.ends[UNTOLD], found.odd) == (0, 0, [])
    assert found.ends["answered"] > 0 and found.ends["hung up"] > 0
    assert found.unasked == 0
    assert abs(found.more_files) < 6  # connections that are just opened or closed
    assert "(goal 0)" in capsys.readouterr().out
    assert '"offered"' in (tmp_path / "soak.json").read_text(encoding="utf-8")


def test_what_wrk_prints_is_read_and_its_errors_are_not_figures():
    text = (
        "  Latency Distribution\n     50%  635.00us\n     75%  1.10ms\n     90%    2.01s\n"
        "  9 requests in 1.00s, 1.10MB read\nRequests/sec:   1234.50\nTransfer/sec:    1.1MB\n"
    )
    read = serve_clients.read_wrk(text)
    assert (read.rate, read.p50, read.p90) == pytest.approx((1234.5, 635e-6, 2.01))
    with pytest.raises(RuntimeError, match="wrk had errors"):
        serve_clients.read_wrk(text + "  Non-2xx or 3xx responses: 3\n")
    with pytest.raises(RuntimeError, match="not understood"):
        serve_clients.read_wrk("hello")
