"""Measuring executors: inputs, runs in turns, a typical trace. Used by run, bench and demo."""

from __future__ import annotations

import io
import math
import time
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_hetero.errors import ArtifactError, FormatError, UsageError
from tvm_hetero.executor.interleave import Runner as Runner
from tvm_hetero.executor.interleave import measure_in_turns as measure_in_turns
from tvm_hetero.report.run.run_table import Difference
from tvm_hetero.util.documents import write_atomic
from tvm_hetero.util.plain_file import open_plain_file
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    import onnx

    from tvm_hetero.executor.executor import Executor, TracedStep

Arrays = dict[str, np.ndarray[Any, Any]]
TRACED = 25  # runs among which the fastest one's trace is kept


def executor_runner(executor: Executor, inputs: Arrays) -> Runner:
    """Runs of one executor on fixed inputs."""

    def run(count: int) -> list[float]:
        return executor.benchmark(inputs, repeat=count, warmup=0)

    return run


def best_trace(executor: Executor, inputs: Arrays) -> list[TracedStep]:
    """The trace of the fastest of `TRACED` runs: what the plan does when it is left alone."""
    traces = []
    for _ in range(TRACED):
        executor.run(inputs)
        traces.append(executor.trace())
    return min(traces, key=lambda trace: max((step.end for step in trace), default=0.0))


def read_inputs(path: Path) -> Arrays:
    """Arrays by input name from an ``.npz`` file; nothing in it is executed.

    Raises
    ------
    UsageError
        If the file cannot be read as plain arrays.
    """
    try:
        with open_plain_file(path) as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no archive of arrays")
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return {name: _plain(arrays, name) for name in arrays.files}
    # RuntimeError: an archive that is encrypted, or packed in a way that nobody here knows.
    except (OSError, ValueError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{path}: cannot be read as .npz ({printable(reason, 300)}); make one with numpy.savez"
        ) from None


def _plain(arrays: Any, name: str) -> np.ndarray[Any, Any]:
    """One array of numbers; NumPy's own refusal of others advises to allow what we never do."""
    try:
        return np.asarray(arrays[name])
    except ValueError:
        raise ValueError(f"{quote(name)} is no array of plain numbers") from None
    except MemoryError:
        raise ValueError(f"there is no memory for {quote(name)}") from None


def write_outputs(path: Path, outputs: Arrays) -> None:
    """Write arrays by name as an ``.npz`` file, whole or not at all."""
    buffer = io.BytesIO()
    # A parameter of savez is called `file`, so an output of that name needs another way in.
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in outputs.items():
            one = io.BytesIO()
            np.lib.format.write_array(one, np.asarray(array), allow_pickle=False)
            archive.writestr(f"{name}.npy", one.getvalue())
    try:
        write_atomic(path, buffer.getvalue())
    except FormatError as error:
        raise ArtifactError(str(error)) from None


class OnnxRuntime:
    """A model on ONNX Runtime: the reference for outputs, and another thing to measure.

    Raises
    ------
    UsageError
        If ONNX Runtime is not installed.
    """

    def __init__(self, model: onnx.ModelProto, threads: int) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise UsageError(
                "ONNX Runtime is not installed; pip install 'tvm_hetero[onnxruntime]'"
            ) from None
        chosen = onnxruntime.SessionOptions()
        chosen.intra_op_num_threads = threads
        chosen.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), chosen, providers=["CPUExecutionProvider"]
        )

    def outputs(self, inputs: Arrays) -> list[np.ndarray[Any, Any]]:
        """All outputs, in the model's order."""
        return [np.asarray(value) for value in self._session.run(None, inputs)]

    def runner(self, inputs: Arrays) -> Runner:
        """Runs of the session on fixed inputs."""

        def run(count: int) -> list[float]:
            seconds = []
            for _ in range(count):
                start = time.perf_counter()
                self._session.run(None, inputs)
                seconds.append(time.perf_counter() - start)
            return seconds

        return run


def largest_difference(ours: list[Any], reference: list[np.ndarray[Any, Any]]) -> Difference:
    """The largest differences between corresponding elements of all outputs.

    Raises
    ------
    ArtifactError
        If the outputs differ in number or shape, or one side has values that are not finite.
    """
    if len(ours) != len(reference):
        raise ArtifactError(f"got {len(ours)} outputs, the reference has {len(reference)}")
    worst = Difference(0.0, 0.0)
    for i, (mine, other) in enumerate(zip(ours, reference, strict=True)):
        array = np.asarray(mine.numpy() if hasattr(mine, "numpy") else mine)
        if array.shape != other.shape:
            raise ArtifactError(f"output {i} is {array.shape}, the reference's {other.shape}")
        difference = np.abs(array.astype(np.float64) - other.astype(np.float64))
        if not np.isfinite(difference).all():
            raise ArtifactError(f"output {i} or its reference holds values that are not finite")
        absolute = float(difference.max(initial=0.0))
        scale = float(np.abs(other.astype(np.float64)).max(initial=0.0))
        relative = absolute / scale if scale > 0 else (math.inf if absolute > 0 else 0.0)
        worst = Difference(max(worst.absolute, absolute), max(worst.relative, relative))
    return worst
