"""The best configuration of a pipeline that runs, in quiet and under a disturbance: measured.

All configurations cannot be tried while a disturbance lasts. So a few are that could be the best:
the optimum for what stages take (`tvm_hetero.online.slowdown`, as policy ``resolve`` does, but with
as many trials as it likes), the configurations one step from it, those that a search would begin
with, and the artifact's own plan. The quickest is measured again, for longer, and that counts: the
larger of many noisy figures alone would be too large.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from tvm_hetero.errors import HeteroError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.comparison.disturber import LONGEST
from tvm_hetero.online.comparison.live import LiveTrial, measure_pace
from tvm_hetero.online.comparison.outcome import BestRates
from tvm_hetero.online.configuration import Configuration, neighbours
from tvm_hetero.online.live.adapter import make_setting
from tvm_hetero.online.live.pipeline import LivePipeline
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.online.policy import Setting
from tvm_hetero.online.slowdown import EQUAL, disturbed_seconds, estimate_factors
from tvm_hetero.processes.disturbers import disturb

# Configurations that are looked at, and for how long each (s, and requests at least).
TRIED, _SECONDS, _REQUESTS = 10, 0.3, 6
# The optimum is taken so many times, each time with what the last one showed.
_REFINED = 3
# The best is looked at again for so many times as long.
_AGAIN = 3


def measure_best(
    trial: LiveTrial,
    tried: int = TRIED,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> BestRates:
    """The highest requests/s of so many configurations, in quiet and disturbed; of 0: unknown.

    `tell` hears how many were looked at, of how many at most.
    """
    if tried == 0:
        return BestRates(None, None, "nothing was tried")
    rates = []
    for disturbing in (False, True):
        tell(disturbing * tried, 2 * tried)
        rates.append(_best_rate(trial, tried, disturbing=disturbing))
    quiet, disturbed = rates
    how = f"the best of {tried} likely configurations and the artifact's plan, measured"
    return BestRates(quiet, disturbed, how)


def _best_rate(trial: LiveTrial, tried: int, *, disturbing: bool) -> float:
    weather = disturb(trial.kind, trial.core, LONGEST) if disturbing else nullcontext()
    with weather:
        own = measure_pace(trial, _AGAIN * _SECONDS)
        with _streaming(trial) as pipeline:
            return max(own, _search(pipeline, make_setting(pipeline), tried))


@contextmanager
def _streaming(trial: LiveTrial) -> Iterator[LivePipeline]:
    """A pipeline through which requests go while the block runs."""
    ended = threading.Event()
    with Executor(trial.executable) as executor:
        pipeline = LivePipeline(executor, trial.executable)

        def requests() -> Iterator[Mapping[str, Any]]:
            while not ended.is_set():
                yield trial.inputs

        def run() -> None:
            try:
                for _ in executor.map(requests()):
                    pass
            except HeteroError:  # it was closed: whoever looks on hears of that too
                pipeline.stop()

        thread = threading.Thread(target=run, name="tvm_hetero stream", daemon=True)
        thread.start()
        try:
            yield pipeline
        finally:
            ended.set()
            pipeline.stop()
            thread.join()


def _search(pipeline: LivePipeline, setting: Setting, tried: int) -> float:
    """The requests/s of the best of so many configurations."""
    seen = {setting.static: _look(pipeline, setting.static)}
    for _ in range(min(_REFINED, tried - 1)):
        expected = _expected(setting, list(seen.values()))
        found = find_optimum(expected, setting.places).configuration
        if found in seen:
            break
        seen[found] = _look(pipeline, found)
    best = max(seen, key=lambda c: _rate(seen[c]))
    expected = _expected(setting, list(seen.values()))
    near = sorted(neighbours(best, setting.places), key=lambda c: bottleneck(expected, c))
    for found in [c for c in dict.fromkeys(near) if c not in seen][: tried - len(seen)]:
        seen[found] = _look(pipeline, found)
    best = max(seen, key=lambda c: _rate(seen[c]))
    return _rate(_look(pipeline, best, _AGAIN))


def _rate(seen: Observation) -> float:
    """Requests/s, whatever kept the pipeline from being always full."""
    return (seen.requests - 1) / seen.seconds


def _look(pipeline: LivePipeline, configuration: Configuration, times: int = 1) -> Observation:
    pipeline.switch(configuration)
    found = pipeline.observe(times * _REQUESTS, times * _SECONDS)
    if found is None:
        raise HeteroError("the stream ended while its best configuration was looked for")
    return found


def _expected(setting: Setting, seen: list[Observation]) -> list[list[float]]:
    """seconds[block][place] by what was seen."""
    quiet = setting.guessed
    factors = estimate_factors(setting, quiet, seen)
    return disturbed_seconds(
        setting, quiet, [factors.get(p, EQUAL) for p in range(len(setting.places))]
    )
