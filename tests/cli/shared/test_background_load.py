"""Other programs are seen, our own work is not counted as theirs."""

from __future__ import annotations

import subprocess
import sys
import time

from tvm_hetero.cli.shared.background_load import Neighbours

SPIN = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_busy_neighbour_is_seen_and_we_ourselves_are_not() -> None:
    alone = Neighbours()
    busy(1.0)
    without = alone.busy_cores()
    neighbour = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        time.sleep(0.3)
        together = Neighbours()
        time.sleep(1.0)
        beside = together.busy_cores()
        warning = together.warning()
    finally:
        neighbour.kill()
        neighbour.wait()
    # The machine may have other neighbours too, so only differences mean something.
    assert beside > 0.2
    assert "Other programs kept" in warning
    assert without < beside + 1.0
