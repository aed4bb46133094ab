"""Networks on two cores: a plan on teams beside all cores, each core by itself, and other programs.

    python -m benchmarks.widths                    all, writes results/widths.json
    python -m benchmarks.widths --models inception_v1,randwire
    python -m benchmarks.widths --small            seconds (the tests run it)

Latency of one element, measured in turns in one run:

    plan    cores one by one and both together, decided by the scheduler (`Platform.detect(teams=)`)
    all     both cores for every operator
    each    operators side by side, a core each
    one     one core
    ort     ONNX Runtime with two threads, its defaults else
    vino    OpenVINO with two threads, LATENCY hint and float32, where it is installed

Links are measured anew for each network and again behind it (`benchmarks.execution.mode`); one
during which they changed is measured again. `error` is the plan's median against its prediction.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

from benchmarks.documents import write_document
from benchmarks.execution.arguments import chosen
from benchmarks.execution.cases import (
    RANDWIRE,
    make_model,
    one_device,
    two_core_teams,
    two_devices,
)
from benchmarks.execution.contenders import Built, build_plan, difference, elements_of, peer_runner
from benchmarks.execution.mode import Mode, in_one_mode
from benchmarks.execution.unrest import ATTEMPTS, in_a_calm_moment
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.artifact.executable import PARTITION
from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.cli.shared.measure import OnnxRuntime
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.interleave import Runner, Statistics, measure_in_turns
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Objective

LIGHT = ("inception_v1", "inception_v2", RANDWIRE, "densenet121", "resnet50", "squeezenet",
         "shufflenet", "bvlc_alexnet", "vgg19")  # fmt: skip
TORCH = ("mobilenet_v3", "minilm")
CORES = 2
_SECONDS, _LEAST, _MOST = 4.0, 10, 60


@dataclass(frozen=True)
class WidthRow:
    """One network. Median seconds of each side, 0 where a program is not installed."""

    model: str
    tasks: int
    devices: list[str]
    predicted_s: float
    bound_s: float
    plan_s: float
    all_s: float
    each_s: float
    one_s: float
    ort_s: float
    vino_s: float
    difference: float
    others: float
    unrest: float
    mode: Mode

    @property
    def error(self) -> float:
        """By which share of the prediction the plan takes longer."""
        return self.plan_s / self.predicted_s - 1

    @property
    def behind(self) -> float:
        """The plan's time over that of the better of all cores and each by itself."""
        return self.plan_s / min(self.all_s, self.each_s)

    @property
    def speed_up(self) -> float:
        """One core's time over the plan's."""
        return self.one_s / self.plan_s


def main(arguments: Sequence[str] | None = None) -> list[WidthRow]:
    """Measure, print and write; the rows."""
    asked = chosen(__doc__, arguments, "widths.json", models=(*LIGHT, *TORCH), limit=20.0)
    if asked is None:
        return []
    rows: list[WidthRow] = []
    print(_HEAD)
    for name in asked.models:
        rows.append(measure(name, asked.limit, small=asked.small))
        print(line(rows[-1]), flush=True)
        if asked.output is not None:
            write_document(asked.output, "python -m benchmarks.widths", map(asdict, rows),
                           time_limit_s=asked.limit, openvino=_openvino_version())  # fmt: skip
    print(summary(rows))
    return rows


def measure(name: str, limit: float, *, small: bool) -> WidthRow:
    """Build a network in all ways and measure them in turns."""
    model = _model(name)

    def figures(linked: Platform) -> dict[str, Any]:
        return _figures(model, linked, limit, small)

    found, mode = in_one_mode(two_core_teams(), figures, small)
    return WidthRow(name, **found, mode=mode)


def _model(name: str) -> onnx.ModelProto:
    if name not in TORCH:
        return make_model(name)
    from benchmarks.execution.torch_nets import export

    with tempfile.TemporaryDirectory() as folder:
        export(name, Path(folder) / "net.onnx")
        return onnx.load(Path(folder) / "net.onnx")


def _figures(model: onnx.ModelProto, linked: Platform, limit: float, small: bool) -> dict[str, Any]:
    objective = Objective("latency")
    places = {"plan": linked, "all": one_device(CORES), "each": two_devices(), "one": one_device(1)}
    built = {
        side: build_plan(model, place, objective, limit, small=small)
        for side, place in places.items()
    }
    schedule = built["plan"].placed.schedule
    found = {
        "tasks": len(built["plan"].placed.problem.tasks),
        "devices": sorted({e.device for e in schedule.executions if e.end > e.start}),
        "predicted_s": schedule.value,
        "bound_s": schedule.lower_bound,
    }
    return found | _measured(model, built, small)


def _measured(model: onnx.ModelProto, built: Mapping[str, Built], small: bool) -> dict[str, Any]:
    with ExitStack() as stack:
        executors = {
            side: stack.enter_context(Executor(each.executable, PARTITION))
            for side, each in built.items()
        }
        inputs = executors["plan"].random_inputs(0)
        peer = OnnxRuntime(model, CORES)
        error = max(difference(executor, inputs, 1, peer) for executor in executors.values())
        runners = {side: _runner(executor, inputs) for side, executor in executors.items()}
        runners["ort"] = peer_runner(peer, elements_of(inputs, 1))
        if (vino := openvino_runner(model, inputs)) is not None:
            runners["vino"] = vino
        neighbours = Neighbours()
        found, unrest = in_a_calm_moment(
            lambda: measure_in_turns(runners, _runs(built["plan"], small), 0 if small else 2),
            ("plan", "all", "each", "one"),
            attempts=1 if small else ATTEMPTS,
        )
        others = neighbours.busy_cores()
    none = {f"{side}_s": 0.0 for side in ("vino",)}
    return {**none, **_medians(found), "difference": error, "others": others, "unrest": unrest}


def _medians(found: Mapping[str, Statistics]) -> dict[str, float]:
    return {f"{side}_s": statistics.median for side, statistics in found.items()}


def _runner(executor: Executor, inputs: Mapping[str, Any]) -> Runner:
    return lambda count: executor.benchmark(inputs, repeat=count, warmup=0)


def _runs(built: Built, small: bool) -> int:
    if small:
        return 3
    return int(min(max(_SECONDS / built.placed.schedule.value, _LEAST), _MOST))


def openvino_runner(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> Runner | None:
    """Seconds of runs of OpenVINO on so many cores, in float32; None where it is not installed."""
    if importlib.util.find_spec("openvino") is None:
        return None
    openvino = importlib.import_module("openvino")
    settings = {
        "INFERENCE_NUM_THREADS": CORES,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings)
    names = {i.any_name for i in compiled.inputs}
    given = {name: value for name, value in inputs.items() if name in names}

    def run(count: int) -> list[float]:
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            compiled(given)
            seconds.append(time.perf_counter() - start)
        return seconds

    return run


def _openvino_version() -> str:
    try:
        return importlib.metadata.version("openvino")
    except importlib.metadata.PackageNotFoundError:
        return ""


_SIDES = ("plan", "all", "each", "one", "ort", "vino")
_HEAD = (
    f"{'model':<14}{'tasks':>6}{'bound':>8}{'predict.':>9}"
    + "".join(f"{side:>8}" for side in _SIDES)
    + f"{'error %':>8}{'/better':>8}{'/one':>6}{'diff.':>8}{'others':>7}{'link us':>8}"
)


def line(row: WidthRow) -> str:
    """One row of the table, times in ms."""
    times = [row.bound_s, row.predicted_s, *(getattr(row, f"{side}_s") for side in _SIDES)]
    shown = f"{1e3 * times[0]:>8.2f}{1e3 * times[1]:>9.2f}"
    shown += "".join(f"{1e3 * seconds:>8.2f}" for seconds in times[2:])
    return (
        f"{row.model:<14}{row.tasks:>6}{shown}{100 * row.error:>8.1f}{row.behind:>8.2f}"
        f"{row.speed_up:>6.2f}{row.difference:>8.0e}{row.others:>7.2f}{row.mode.text:>8}"
    )


def summary(rows: Sequence[WidthRow]) -> str:
    """Geometric means of the plan's time over the others'."""
    sides: dict[str, Callable[[WidthRow], float]] = {
        "the better of all and each": lambda row: row.behind,
        "one core": lambda row: 1 / row.speed_up,
        "ONNX Runtime": lambda row: row.plan_s / row.ort_s,
        "OpenVINO": lambda row: row.plan_s / row.vino_s if row.vino_s else 0.0,
    }
    lines = []
    for side, ratio in sides.items():
        ratios = [ratio(row) for row in rows]
        if all(ratios):
            mean = geometric_mean(ratios)
            lines.append(f"plan over {side}: mean {mean:.3f}, worst {max(ratios):.3f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
