"""Joules a run, from counters in a folder as the kernel has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tests.platform.test_energy_counters import zone
from tvm_hetero.cli.shared.run_energy import energy_text, measure_energy


class Spender:
    """What runs and takes so many microjoules each time."""

    def __init__(self, counter: Path, each: int) -> None:
        self.counter, self.each = counter, each

    def benchmark(self, inputs: object, repeat: int, warmup: int) -> None:
        before = int(self.counter.read_text())
        self.counter.write_text(str(before + repeat * self.each))


def test_each_is_charged_for_its_own_runs(tmp_path: Path) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", "7")
    both = {"partition": Spender(counter, 250000), "single": Spender(counter, 500000)}
    found = measure_energy(cast(Any, both), {}, 10, tmp_path)
    assert found == {"partition": 0.25, "single": 0.5}
    assert (
        energy_text(found) == "energy a run, of all packages: 0.25 J of partition, 0.5 J of single"
    )


def test_where_there_are_no_counters_it_is_said(tmp_path: Path) -> None:
    found = measure_energy({}, {}, 10, tmp_path)
    assert list(found) == ["not_measured"]
    assert energy_text(found).startswith("energy: not measured, as the kernel shows no counters")
