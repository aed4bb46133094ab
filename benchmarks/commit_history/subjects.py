"""What is measured again and again: a network, some kernels, some schedules; and their peers.

Small on purpose: a set that takes minutes is not measured at each commit. A peer is what does the
same, or at least as much of the same kind, and does not change with our commits: ONNX Runtime for
what is computed, and a linear program that SciPy solves for what is searched. Each side is made in
a process of its own, on the same core.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

# Runs something once and returns its seconds.
Run = Callable[[], float]
Side = Literal["ours", "peer"]


@dataclass(frozen=True)
class Subject:
    """One figure: its name, and how each side's run is made.

    ``quality`` is what our answer is worth beside its bound: 1 is proven to be the best.
    """

    name: str
    makes: Mapping[Side, Callable[[], Run]]
    quality: Callable[[], float] | None = field(default=None)


NETWORK = "squeezenet"
KERNELS = ("conv 3x3", "depthwise 3x3", "pointwise", "product", "layer norm")
# Network, platform, solver: what these find, and prove, does not hang on the time that they have.
SCHEDULES = (
    ("light-squeezenet", "sched-nvl", "heft"),
    ("light-inception_v1", "big-little", "auto"),
)
SEARCH = "schedules"
_LIMIT = 60.0


def subjects(*, small: bool = False) -> list[Subject]:
    """All of them; of a small run one kernel and the schedules."""
    computed = [KERNELS[-1]] if small else [NETWORK, *KERNELS]
    found = [
        Subject(name, {"ours": partial(_ours, name), "peer": partial(_onnxruntime, name)})
        for name in computed
    ]
    search = Subject(SEARCH, {"ours": lambda: _timed(_schedule_all), "peer": _linear_program},
                     _quality)  # fmt: skip
    return [*found, search]


def keep_to_first_core() -> None:
    """Both sides have the same core, one after the other."""
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])


def _timed(work: Callable[[], object]) -> Run:
    def run() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    return run


# ------------------------------------------------------------------------ what is computed


def _model(name: str) -> object:
    from benchmarks.execution.cases import make_model
    from benchmarks.kernel_cases.convolutions import Convolution
    from benchmarks.kernel_cases.products import product
    from benchmarks.kernel_cases.rows import layer_norm_case

    if name == NETWORK:
        return make_model(NETWORK)
    same, none, one = (1, 1, 1, 1), (0, 0, 0, 0), (1, 1)
    makes = {
        "conv 3x3": lambda: Convolution(64, 56, 56, 64, (3, 3), one, same).case(""),
        "depthwise 3x3": lambda: Convolution(144, 56, 56, 144, (3, 3), one, same, one, 144).case(
            ""
        ),
        "pointwise": lambda: Convolution(256, 14, 14, 1024, one, one, none).case(""),
        "product": lambda: product(128, 768, 768),
        "layer norm": lambda: layer_norm_case((128, 768)),
    }
    return makes[name]().model()


def _ours(name: str) -> Run:
    import onnx

    from benchmarks.execution.cases import one_device
    from benchmarks.execution.contenders import build_plan
    from tvm_hetero.executor.executor import Executor
    from tvm_hetero.problem import Objective

    model = _model(name)
    assert isinstance(model, onnx.ModelProto)
    built = build_plan(model, one_device(1), Objective("latency"), _LIMIT, small=True)
    executor = Executor(built.executable)
    inputs = executor.random_inputs(0)
    return lambda: executor.benchmark(inputs, repeat=1, warmup=0)[0]


def _onnxruntime(name: str) -> Run:
    import numpy as np
    import onnx
    import onnxruntime

    model = _model(name)
    assert isinstance(model, onnx.ModelProto)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    rng = np.random.default_rng(0)
    inputs = {
        row.name: rng.standard_normal(row.shape).astype(np.float32) for row in session.get_inputs()
    }
    return _timed(lambda: session.run(None, inputs))


# ------------------------------------------------------------------------- what is searched


def _schedule_all() -> Iterable[float]:
    """Value over bound of each of `SCHEDULES`."""
    from tvm_hetero import zoo
    from tvm_hetero.solvers import Options, solve

    made = (
        solve(zoo.problem(network, platform), solver, Options(time_limit=_LIMIT))
        for network, platform, solver in SCHEDULES
    )
    return [schedule.value / schedule.lower_bound for schedule in made]


def _quality() -> float:
    from benchmarks.scheduling.runner import geometric_mean

    return geometric_mean(list(_schedule_all()))


def _linear_program() -> Run:
    """SciPy's HiGHS on a program of fixed numbers that takes it some tenths of a second."""
    import numpy as np
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    rows, columns = 400, 600
    limits = rng.random((rows, columns))
    worth = -rng.random(columns)
    return _timed(lambda: linprog(worth, A_ub=limits, b_ub=np.ones(rows), method="highs-ds"))
