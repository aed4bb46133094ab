"""Run a built model: the plan on the C++ executor, with the model's own names for everything."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import tvm

from tvm_hetero.discovery import missing_features
from tvm_hetero.documents import nearest
from tvm_hetero.errors import ArtifactError, RunError, UsageError
from tvm_hetero.machine import read_processor
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Problem
from tvm_hetero.report.intervals import COPY
from tvm_hetero.runtime import native
from tvm_hetero.runtime.artifact import load_artifact
from tvm_hetero.runtime.executable import Executable
from tvm_hetero.runtime.kernel_cache import load_library, make_vm
from tvm_hetero.runtime.plan import weight_name
from tvm_hetero.runtime.stream import steady_seconds, stream
from tvm_hetero.schedule import Schedule


@dataclass(frozen=True)
class TensorInfo:
    """Name, shape and type of an input."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class TracedStep:
    """One step of a run: seconds since the run began, NaN where it was skipped."""

    name: str
    device: str
    start: float
    end: float
    kind: str
    tasks: tuple[str, ...]


def load(path: str | os.PathLike[str], variant: str | None = None) -> Executor:
    """Load an artifact and start its executor.

    Raises
    ------
    ArtifactError
        If there is no artifact, or it is damaged or of another version.
    """
    return Executor(load_artifact(path), variant)


class Executor:
    """Runs a model on all of its devices at once.

    >>> ex = tvm_hetero.load("net.hetero")                           # doctest: +SKIP
    >>> out = ex.run(data_0=x)                                       # doctest: +SKIP

    One thread at a time may use it; after an error it can be used again.

    Attributes
    ----------
    inputs : names, shapes and types; outputs : names, in the model's order.
    problem, schedule : what was solved to get this plan.
    variant : which plan of the executable runs.
    """

    def __init__(self, executable: Executable, variant: str | None = None) -> None:
        self.variant = variant or executable.default
        if self.variant not in executable.variants:
            raise UsageError(
                f"the artifact has no variant {self.variant!r}"
                f"{nearest(self.variant, executable.variants)}"
            )
        chosen = executable.variants[self.variant]
        self.problem: Problem = executable.problem
        self.schedule: Schedule = executable.schedule
        self.plan = chosen.plan
        _check_processor(self.problem.platform, chosen.libraries)
        self._native = native.create(self.plan)  # checks the plan: what follows may trust it
        self.inputs = tuple(
            TensorInfo(row["name"], tuple(row["shape"]), row["dtype"])
            for row in self.plan["inputs"]
        )
        self.outputs = tuple(row["name"] for row in self.plan["outputs"])
        self._tasks = chosen.tasks
        self._vms = _make_vms(self.plan, chosen.libraries)
        self._native.set_functions(_step_functions(self.plan, self._vms))
        self._set_constants(executable.weights)
        # Inputs that are outputs too: whoever holds such an output must keep what it was.
        self._returned = {row["slot"] for row in self.plan["outputs"]}
        self._buffers = [
            tvm.runtime.empty(info.shape, info.dtype, _device_of_slot(self.plan, row["slot"]))
            for info, row in zip(self.inputs, self.plan["inputs"], strict=True)
        ]

    def run(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> list[Any]:
        """Run the model once.

        Parameters
        ----------
        inputs, named : arrays or TVM tensors by input name; a name that is no Python identifier
            (``gpu_0/data_0``) goes into the mapping, or is written with underscores.

        Returns
        -------
        list
            The outputs, TVM tensors, in the model's order.

        Raises
        ------
        RunError
            If an input is missing, unknown, or of another shape or type; or a step fails.
        """
        self.set_inputs(_merged(inputs, named))
        self._native.run()
        return [self._native.get_output(i) for i in range(len(self.outputs))]

    def map(self, batches: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
        """Run the model on many inputs, in a pipeline: every device works on another of them.

        >>> for out in ex.map({"data_0": x} for x in images): ...        # doctest: +SKIP

        Parameters
        ----------
        batches : inputs by name, as `run` takes them; fetched while there is room in the pipeline
            (see `tvm_hetero.runtime.stream`), and copied.

        Yields
        ------
        list
            The outputs of each, in the order of the inputs, equal to those of `run`.

        Raises
        ------
        RunError
            As in `run`. What is in flight is dropped then, and the executor can be used again.
            While the iterator is neither exhausted nor closed, all other uses are refused.
        """
        return stream(self._native, map(self._fresh, batches))

    def throughput(self, values: Mapping[str, Any], batches: int = 50) -> float:
        """Seconds between two runs of the model in the steady state of a pipeline.

        What comes before and after the steady state does not count: `batches` do (see
        `tvm_hetero.runtime.stream`). All run on the same inputs. Afterwards `trace` tells of one
        period of the pipeline.
        """
        self.set_inputs(values)
        return steady_seconds(self._native, batches)

    @property
    def depth(self) -> int:
        """How many batches are in the pipeline of `map` at most, when it is full."""
        return self._native.frames

    def set_inputs(self, values: Mapping[str, Any]) -> None:
        """Copy values into the inputs (see `run`), which stay until the next call."""
        for i, value in enumerate(self._arrays(values)):
            row = self.plan["inputs"][i]
            if row["slot"] in self._returned:
                device = _device_of_slot(self.plan, row["slot"])
                self._buffers[i] = tvm.runtime.empty(row["shape"], row["dtype"], device)
            self._buffers[i].copyfrom(value)
            self._native.set_input(i, self._buffers[i])

    def benchmark(
        self, values: Mapping[str, Any], repeat: int = 50, warmup: int = 5
    ) -> list[float]:
        """Seconds of `repeat` runs in a row, after `warmup` that do not count."""
        self.set_inputs(values)
        self._native.run_repeated(warmup)
        return self._native.run_repeated(repeat)

    def trace(self) -> list[TracedStep]:
        """When each step of the last run (or period, see `throughput`) began and ended."""
        steps = []
        for step, tasks, (start, end) in zip(
            self.plan["steps"], self._tasks, self._native.trace(), strict=True
        ):
            worker = self.plan["workers"][step["worker"]]["name"]
            kind = COPY if step["kind"] == "copy" else self._kind(tasks)
            name = ", ".join(tasks) if tasks else step["name"]
            steps.append(TracedStep(name, worker, start, end, kind, tasks))
        return steps

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Seeded standard-normal inputs (whole numbers from 0 to 9 for integer types)."""
        rng = np.random.default_rng(seed)
        values = {}
        for info in self.inputs:
            if "float" in info.dtype:  # bfloat16 too, whose kind is not numpy's "f"
                values[info.name] = rng.standard_normal(info.shape).astype(info.dtype)
            else:
                values[info.name] = rng.integers(0, 10, info.shape).astype(info.dtype)
        return values

    def close(self) -> None:
        """Stop the worker threads; the executor cannot be used any more."""
        self._native.close()

    def __enter__(self) -> Executor:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _kind(self, tasks: Sequence[str]) -> str:
        """The op of the task that takes most of a segment's time."""
        if not tasks:
            return ""
        costs = self.problem.costs

        def longest(task: str) -> float:
            return max(cost.seconds(1) for cost in costs[task].values())

        return self.problem.graph.task(max(tasks, key=longest)).op

    def _arrays(self, values: Mapping[str, Any]) -> list[np.ndarray[Any, Any]]:
        """One checked array for each input."""
        rows = self._resolve(values)
        for i, info in enumerate(self.inputs):
            if i not in rows:
                raise RunError(
                    f"input {info.name!r} is missing; expected {_describe(self.inputs)}"
                )
            _check_value(rows[i], info)
        ordered = [rows[i] for i in range(len(self.inputs))]
        return [v.numpy() if hasattr(v, "numpy") else np.asarray(v) for v in ordered]

    def _fresh(self, values: Mapping[str, Any]) -> list[Any]:
        """New tensors for the inputs: others may still be in flight."""
        return [
            tvm.runtime.tensor(value, _device_of_slot(self.plan, row["slot"]))
            for value, row in zip(self._arrays(values), self.plan["inputs"], strict=True)
        ]

    def _resolve(self, values: Mapping[str, Any]) -> dict[int, Any]:
        """Values by the position of their input; names may be written as identifiers."""
        _require_mapping(values)
        short = [identifier(info.name) for info in self.inputs]
        positions = {name: i for i, name in enumerate(short) if short.count(name) == 1}
        positions |= {info.name: i for i, info in enumerate(self.inputs)}
        rows: dict[int, Any] = {}
        for name, value in values.items():
            if name not in positions:
                raise RunError(
                    f"there is no input {name!r}{nearest(name, positions)}; expected "
                    f"{_describe(self.inputs)}"
                )
            if positions[name] in rows:
                raise RunError(f"input {self.inputs[positions[name]].name!r} is given twice")
            rows[positions[name]] = value
        return rows

    def _set_constants(self, weights: Mapping[str, Any]) -> None:
        for i, row in enumerate(self.plan["constants"]):
            name = weight_name(row["name"])
            if name not in weights:
                raise ArtifactError(f"the plan needs a weight {name!r}, which is not there")
            device = _device_of_slot(self.plan, row["slot"])
            value = weights[name]
            if isinstance(value, np.ndarray) or value.device != device:
                array = value if isinstance(value, np.ndarray) else value.numpy()
                value = tvm.runtime.tensor(array, device)
            self._native.set_constant(i, value)


def _merged(inputs: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs by name, from both of the ways in which they may be given."""
    if inputs is None:
        return dict(named)
    _require_mapping(inputs)
    twice = sorted(inputs.keys() & named.keys())
    if twice:
        raise RunError(f"input {twice[0]!r} is given twice")
    return {**inputs, **named}


def _require_mapping(inputs: object) -> None:
    if not isinstance(inputs, Mapping):
        raise RunError(
            f"expected a mapping from the names of inputs to arrays, got {type(inputs).__name__}; "
            "write {'name': array}, or run(name=array)"
        )


def identifier(name: str) -> str:
    """A model's name as a Python identifier: ``gpu_0/data_0`` is ``gpu_0_data_0``."""
    text = "".join(c if c.isalnum() else "_" for c in name)
    return f"_{text}" if text[:1].isdigit() else text


def _check_processor(platform: Platform, libraries: Iterable[str]) -> None:
    """Refuse libraries with instructions that this CPU lacks: the first one would kill us."""
    for name in libraries:
        target = platform.device(name).target
        missing = missing_features(target, read_processor())
        if missing:
            raise ArtifactError(
                f"device {name!r} was compiled for {dict(target or {})}; this CPU lacks "
                f"{', '.join(missing[:6])}; build it again here, or for an older mcpu"
            )


def _make_vms(plan: Mapping[str, Any], libraries: Mapping[str, Any]) -> dict[int, Any]:
    """A virtual machine for each worker that computes."""
    vms = {}
    for i, worker in enumerate(plan["workers"]):
        if worker["role"] == "compute":
            library = load_library(libraries[worker["name"]])
            vms[i] = make_vm(library, _device(plan, worker["device"]))
    return vms


def _step_functions(plan: Mapping[str, Any], vms: Mapping[int, Any]) -> list[Any]:
    try:
        return [
            vms[step["worker"]][step["function"]] if step["kind"] == "call" else None
            for step in plan["steps"]
        ]
    except (AttributeError, KeyError) as error:
        raise ArtifactError(
            f"the libraries are not those of the plan ({error}); build the model again"
        ) from None


def _device(plan: Mapping[str, Any], number: int) -> tvm.runtime.Device:
    row = plan["devices"][number]
    return tvm.runtime.Device(row["dl_type"], row["dl_id"])


def _device_of_slot(plan: Mapping[str, Any], slot: int) -> tvm.runtime.Device:
    return _device(plan, plan["slots"][slot]["device"])


def _check_value(value: Any, info: TensorInfo) -> None:
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise RunError(f"input {info.name!r}: expected an array, got {type(value).__name__}")
    shape = tuple(int(d) for d in value.shape)
    if shape != info.shape or str(value.dtype) != info.dtype:
        raise RunError(
            f"input {info.name!r}: expected {info.dtype} of shape {list(info.shape)}, got "
            f"{value.dtype} of shape {list(shape)}"
        )


def _describe(inputs: Iterable[TensorInfo]) -> str:
    return ", ".join(f"{i.name}: {i.dtype}{list(i.shape)}" for i in inputs)
