"""The small mode of benchmarks/pim.py runs, and its committed results hold."""

from __future__ import annotations

import pytest

from benchmarks import pim
from benchmarks.quoted.pim import pim_table
from benchmarks.result_rows import read_rows


def test_pim_small():
    rows = pim.main(["--small"])
    for row in rows:
        assert 0 < row["times"] <= row["at_most"] * (1 + 1e-6)
        assert row["on_pim"]
    products, attention = rows
    # Units that multiply have no softmax; those that do the attention are left it alone.
    assert not {"softmax", "input_norm", "activation"} & set(products["on_pim"])
    assert attention["on_pim"] == {"attention": 1.0}
    assert 1.5 < attention["times"] < 3


def test_the_gpu_alone_has_as_much_memory():
    case = pim.SMALL[0]
    alone = pim.without_pim(case.platform)
    assert alone.names == ("cpu", "gpu0") and len(alone.links) == 2
    both = case.platform
    assert alone.device("gpu0").memory == sum(both.device(d).memory or 0 for d in ("gpu0", "pim"))


def test_a_system_that_there_is_none_of_is_refused_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str],
):
    before = pim.RESULTS.read_bytes()
    with pytest.raises(SystemExit) as ended:
        pim.main(["--only", "PIM-GTP"])
    assert ended.value.code == 2 and "there is no 'PIM-GTP'" in capsys.readouterr().err
    assert pim.RESULTS.read_bytes() == before


def test_the_committed_results_are_of_these_cases():
    rows = read_rows(pim.RESULTS)
    assert [pim._key(row) for row in rows] == [(c.system, c.model, c.batch) for c in pim.CASES]
    assert all(row["times"] <= row["at_most"] * (1 + 1e-3) for row in rows)
    assert pim_table(rows).count("\n") == len(rows) + 1
