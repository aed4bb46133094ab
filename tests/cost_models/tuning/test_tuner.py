"""Tuning one kernel: what is kept, what is refused, and what an interruption leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, s_tir
from tvm.script import tirx as T

from tests.cost_models.kernel_samples import here
from tests.kernels.helpers import kernels, model, random
from tvm_hetero.cost_models.kernels_alone.bench import NotMeasured
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy
from tvm_hetero.cost_models.store import CostStore, Tuning
from tvm_hetero.cost_models.tuning.tune_bench import TuneBench
from tvm_hetero.cost_models.tuning.tune_spaces import GeneralSpace, Known, RuleSpace
from tvm_hetero.cost_models.tuning.tuner import KernelTuner, TuningLimits, beats
from tvm_hetero.devices.target import device_target
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.implementation_attr import DEFAULT, with_implementation
from tvm_hetero.kernels.tuning.trace import apply_trace, trace_text
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.problem.implementation_choice import Timing

PLATFORM = here()
DEVICE = PLATFORM.devices[0]
TARGET = device_target(DEVICE)


@pytest.fixture
def store(tmp_path: Path) -> CostStore:
    return CostStore(tmp_path / "costs.sqlite")


class Given:
    """A space of given traces; it may end with Ctrl-C."""

    def __init__(self, traces: Sequence[str], interrupted: bool = False) -> None:
        self.traces, self.interrupted = traces, interrupted
        self.asked = 0

    def propose(self, known: Known) -> Iterator[str]:
        for trace in self.traces:
            if trace not in known:
                self.asked += 1
                yield trace
        if self.interrupted:
            raise KeyboardInterrupt


def convolution() -> Kernel:
    weight = relax.const(random(0, 32, 16, 3, 3))
    mod = model([(1, 16, 20, 20)], lambda x: relax.op.nn.conv2d(x, weight, padding=1))
    (func,) = kernels(LowerToTasks([TARGET])(mod)).values()
    return Kernel("conv2d", func, constants=(1,))


def slow(kernel: Kernel) -> Kernel:
    """The kernel with TVM's own loop nest for a rule, which all else beats many times."""
    return Kernel(kernel.name, with_implementation(kernel.func, DEFAULT), constants=(1,))


def rule_space(kernel: Kernel) -> RuleSpace:
    return RuleSpace(kernel.func, TARGET, 100)


def tuner(kernel: Kernel, store: CostStore) -> KernelTuner:
    return KernelTuner(kernel, PLATFORM, DEVICE, store)


def doubled() -> Kernel:
    """A kernel of two blocks, y = (x + 1) * 2, that crashes where x + 1 is far off."""

    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((64, 64), "float32"), y: T.Buffer((64, 64), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        one = T.sblock_alloc_buffer((64, 64), "float32")
        for i, j in T.grid(64, 64):
            with T.sblock("one"):
                vi, vj = T.axis.remap("SS", [i, j])
                one[vi, vj] = x[vi, vj] + T.float32(1)
        for i, j in T.grid(64, 64):
            with T.sblock("two"):
                vi, vj = T.axis.remap("SS", [i, j])
                if x[vi, vj] + T.float32(1) - one[vi, vj] > T.float32(0.2):
                    T.evaluate(T.call_extern("int32", "raise", 11))
                y[vi, vj] = one[vi, vj] * T.float32(2)

    return Kernel("doubled", func)


def after(steps: Callable[[s_tir.Schedule], object]) -> str:
    """The trace of some steps on the kernel `doubled`."""
    sch = s_tir.Schedule(tvm.IRModule({"main": doubled().func}))
    steps(sch)
    return trace_text(sch)


BAD = {
    "wrong": after(lambda sch: sch.unsafe_set_dtype(sch.get_sblock("one"), 0, "float16")),
    "crashes": after(lambda sch: sch.unsafe_set_dtype(sch.get_sblock("one"), 0, "int32")),
    "cannot be built": after(
        lambda sch: sch.bind(sch.get_loops(sch.get_sblock("two"))[0], "threadIdx.x")
    ),
    "is no trace": "[]",
}


class Timed:
    """A bench on which each trace takes the seconds that a table says, and the rule takes one."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def compare(self, traces: Sequence[str], effort: SamplingPolicy) -> list[Timing | str]:
        return [Timing(1.0, 0.01), *(Timing(self._seconds[trace], 0.01) for trace in traces)]


def test_the_quickest_schedule_is_found_kept_and_used(store: CostStore) -> None:
    kernel = convolution()
    traces = list(islice(rule_space(kernel).propose({}), 3))
    bench = Timed(dict(zip(traces, (0.9, 0.3, 0.6), strict=True)))
    searching = KernelTuner(kernel, PLATFORM, DEVICE, store, bench=bench)
    found = searching.tune(TuningLimits(3), spaces=[rule_space(kernel)])
    assert found == Tuning(traces[1], seconds=0.3, rule_seconds=1.0, trials=3)
    trace = store.find_tuned(tuner(kernel, store).key, str(TARGET))
    assert trace == found.trace
    tuned = schedule_kernel(with_implementation(kernel.func, "tuned", trace), TARGET)
    assert rule_of(tuned) == "tuned"
    data = [random(i, *[int(e) for e in p.ty.shape]) for i, p in enumerate(kernel.func.params)]
    by_rule = run(schedule_kernel(kernel.func, TARGET), data)
    np.testing.assert_allclose(run(tuned, data), by_rule, rtol=1e-4, atol=1e-4)


def run(func: tvm.tirx.PrimFunc, data: list[np.ndarray]) -> np.ndarray:
    module = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    args = [tvm.runtime.tensor(x) for x in data]
    tvm.runtime.Executable(tvm.tirx.build(module, target=TARGET)).jit()["main"](*args)
    return args[-1].numpy()


def test_a_second_run_goes_on_and_repeats_nothing(store: CostStore) -> None:
    kernel = slow(convolution())
    traces = list(islice(rule_space(convolution()).propose({}), 4))
    first, second, third = Given(traces), Given(traces), Given(traces)
    tuner(kernel, store).tune(TuningLimits(2), spaces=[first])
    found = tuner(kernel, store).tune(TuningLimits(4), spaces=[second])
    assert first.asked == second.asked == 2 and found.trials == 4
    again = tuner(kernel, store)
    assert list(again.known) == traces
    assert again.tune(TuningLimits(4), spaces=[third]) == found and third.asked == 0


def test_an_interruption_keeps_what_was_found(store: CostStore) -> None:
    kernel = slow(convolution())
    traces = list(islice(rule_space(convolution()).propose({}), 2))
    searching = tuner(kernel, store)
    with pytest.raises(KeyboardInterrupt):
        searching.tune(TuningLimits(9), spaces=[Given(traces, interrupted=True)])
    assert store.find_tuned(searching.key, str(TARGET)) in traces
    assert list(store.candidates(searching.key, str(TARGET))) == traces


def test_what_is_bad_is_a_trial_and_no_more(store: CostStore) -> None:
    sound = after(lambda sch: sch.unroll(sch.get_loops(sch.get_sblock("one"))[0]))
    searching = tuner(doubled(), store)
    found = searching.tune(TuningLimits(9), spaces=[Given([*BAD.values(), sound])])
    assert {why: searching.known[trace] for why, trace in BAD.items()} == dict.fromkeys(BAD)
    assert searching.known[sound] is not None
    assert found.trials == len(BAD) + 1 and found.trace in (None, sound)


def test_a_bad_candidate_gets_a_reason() -> None:
    with TuneBench(PLATFORM, DEVICE, doubled()) as bench:
        _, wrong = bench.compare([BAD["wrong"]], SamplingPolicy())
        assert isinstance(wrong, str) and "off by" in wrong
        with pytest.raises(NotMeasured, match="SIGSEGV"):
            bench.compare([BAD["crashes"]], SamplingPolicy())
        with pytest.raises(NotMeasured, match="not implemented"):
            bench.compare([BAD["cannot be built"]], SamplingPolicy())
        (rule,) = bench.compare([], SamplingPolicy())  # a new child has replaced the crashed one
        assert isinstance(rule, Timing)


def test_a_hanging_candidate_is_given_up() -> None:
    with TuneBench(PLATFORM, DEVICE, doubled(), limit=1e-4) as bench:
        with pytest.raises(NotMeasured, match="did not end within"):
            bench.compare([], SamplingPolicy())


def test_what_is_slower_is_not_kept(store: CostStore) -> None:
    kernel = convolution()
    nothing_done = trace_text(s_tir.Schedule(tvm.IRModule({"main": kernel.func})))
    found = tuner(kernel, store).tune(TuningLimits(1), spaces=[Given([nothing_done])])
    assert (found.trace, found.seconds, found.trials) == (None, None, 1)
    assert found.rule_seconds > 0
    assert store.find_tuned(tuner(kernel, store).key, str(TARGET)) is None


def test_quicker_means_beyond_the_spread() -> None:
    rule = Timing(1.0, 0.01)
    assert beats(Timing(0.9, 0.05), rule)
    assert not beats(Timing(0.9, 0.2), rule)
    assert not beats(Timing(0.98, None), rule)
    assert not beats(Timing(0.9, 0.01), Timing(1.0, 0.2))


def test_the_general_space_goes_on_from_what_is_known() -> None:
    kernel = convolution()
    known: dict[str, float | None] = {}
    for _ in range(2):
        for trace in islice(GeneralSpace(kernel.func, TARGET, 0).propose(known), 3):
            assert trace not in known
            known[trace] = 1.0 / (1 + len(known))
    assert len(known) == 6
    for trace in known:
        apply_trace(kernel.func, trace, TARGET)
