"""ONNX Runtime as one-thread processes, each pinned to a core: what a careful user would run.

The parent writes to each child when to start and for how long; a child runs the model over and over
and answers with the times at which its runs ended (``time.perf_counter`` is one clock for all
processes on Linux). What counts is the window in which all of them worked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime

from tvm_hetero.errors import RunError
from tvm_hetero.util.closeable import Closeable

# The children import no more than they need: TVM would take longer than a small mode's runs.
if TYPE_CHECKING:
    import onnx

_ROOT = Path(__file__).resolve().parents[2]
# Runs of each process in the window; and how long the children have to read the parent's word.
_LEAST_RUNS, _NOTICE = 3, 0.02


class PinnedProcesses(Closeable):
    """Children that wait for the word to run; a context manager that ends them.

    A run of `model` takes `images` at once.
    """

    def __init__(
        self, model: onnx.ModelProto, cores: Sequence[int], folder: Path, images: int = 1
    ) -> None:
        self._images = images
        path = folder / f"batch{images}.onnx"
        path.write_bytes(model.SerializeToString())
        command = [sys.executable, "-m", "benchmarks.execution.pinned", str(path)]
        self._children = [
            subprocess.Popen(
                [*command, str(core)], cwd=_ROOT, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for core in cores
        ]  # fmt: skip
        for child in self._children:
            self._answer(child)

    def rate(self, seconds: float) -> float:
        """Images per second of all children together."""
        start = time.perf_counter() + _NOTICE
        for child in self._children:
            assert child.stdin is not None
            child.stdin.write(f"{start!r} {seconds!r}\n")
            child.stdin.flush()
        ends = [json.loads(self._answer(child)) for child in self._children]
        return self._images * common_rate(ends)

    def _answer(self, child: subprocess.Popen[str]) -> str:
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line:
            raise RunError(f"a process of ONNX Runtime has ended with {child.wait()}")
        return line

    def close(self) -> None:
        """End the children."""
        for child in self._children:
            child.kill()
            child.communicate()


def common_rate(ends: Sequence[Sequence[float]]) -> float:
    """The sum of the rates in the window from the latest first end to the earliest last end."""
    first, last = max(times[0] for times in ends), min(times[-1] for times in ends)
    rate = 0.0
    for times in ends:
        inside = [end for end in times if first <= end <= last]
        inside = inside if len(inside) > 1 else list(times)  # nothing in common: no window either
        rate += (len(inside) - 1) / (inside[-1] - inside[0])
    return rate


def main(arguments: Sequence[str] | None = None) -> None:
    """In a child: load the model, then run whenever a line says so, until there are no more."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("core", type=int)
    args = parser.parse_args(arguments)
    os.sched_setaffinity(0, [args.core])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    inputs = {
        row.name: rng.standard_normal(row.shape).astype(np.float32) for row in session.get_inputs()
    }
    session.run(None, inputs)
    print("ready", flush=True)
    for line in sys.stdin:
        start, seconds = map(float, line.split())
        time.sleep(max(0.0, start - time.perf_counter()))
        ends: list[float] = []
        while time.perf_counter() < start + seconds or len(ends) < _LEAST_RUNS:
            session.run(None, inputs)
            ends.append(time.perf_counter())
        print(json.dumps(ends), flush=True)


if __name__ == "__main__":
    main()
