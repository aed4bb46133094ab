"""A stream on two unlike cores, a program that disturbs it, and what a policy sees and does.

Run it from the repository, after ``make setup``:

    .venv/bin/python tutorials/adapt_a_stream.py [MODEL.onnx]

Without an argument it takes SqueezeNet out of the installed ``onnx`` wheel.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tvm_hetero as th
from tvm_hetero import relay
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import light_models
from tvm_hetero.online.live.adapter import AdaptationEvent
from tvm_hetero.platform.host import available_cores
from tvm_hetero.processes.disturbers import disturb

# What happens on the fast core, one after the other.
PHASES = ("quiet", "busy", "quiet again")


@dataclass
class Story:
    """What came of it: requests a second in each phase, windows that a policy has seen, why it gave
    up (if it did), and the largest difference of its stream's outputs from those of the plan.
    """

    static: dict[str, float] = field(default_factory=dict)
    adapted: dict[str, float] = field(default_factory=dict)
    events: list[AdaptationEvent] = field(default_factory=list)
    failure: Exception | None = None
    difference: float = 0.0


def main(
    model: Path | None = None,
    target: Path = Path("demo/stream.hetero"),
    seconds: float = 4.0,
    cost_model: str = "profiled",
) -> Story:
    """Tell the story, with phases of so many seconds."""
    # ---------------------------------------------------------------- 1. a model, two unlike cores
    # Core 0 runs what the processor can, core 1 code for an older one: several times slower. (On
    # equal cores there would be nothing to tell: one that is idle runs the other's steps anyway,
    # and `resolve` leaves them alone.)
    seed = 0 if model is None else None
    model = model or light_models()["squeezenet"]
    cores = sorted(available_cores())[:2]
    platform = th.Platform.detect(2, [None, "x86-64-v2"], cores=cores)
    print(f"1. {model.name} on {', '.join(str(device.target) for device in platform.devices)}")

    # ---------------------------------------------------------------- 2. a plan for throughput
    # What is to be adapted keeps its module, so that other plans can be made of it. Nothing will
    # be compiled: each device's library has all kernels that it can run.
    mod = relay.frontend.from_onnx(model, random_weights=seed)
    mod = relay.transform.HeteroPartition(
        platform=platform, objective="throughput", cost_model=cost_model
    )(mod)
    th.build(mod, adaptable=True).save(target)
    print(f"2. built; by the costs, no plan is quicker than {_bound(target):.0f} requests a second")

    # ---------------------------------------------------------------- 3. the plan as it is
    story = Story()
    with th.load(target) as ex:
        inputs = ex.random_inputs(seed=0)
        reference = [value.numpy() for value in ex.run(inputs)]
        story.static, _ = _stream(ex, inputs, seconds, cores[0], reference)
    print(f"3. the plan as it is: {_rates(story.static)}")

    # ---------------------------------------------------------------- 4. the same, adapted
    # A policy watches what stages take, and how long their threads wait for a core. `resolve`
    # estimates from that how much slower each place has become, solves the problem anew, and tries
    # the answer. Requests that come go by the new plan, those in flight end by the old one.
    with th.load(target, adapt="resolve", on_event=story.events.append) as ex:
        if ex.idle:  # a machine with a single core
            print(f"4. nothing is adapted: {ex.idle}")
        began = time.monotonic()
        story.adapted, story.difference = _stream(ex, inputs, seconds, cores[0], reference)
        story.failure = ex.failure
    print(f"4. adapted by resolve: {_rates(story.adapted)}")
    for event in story.events:
        if event.switched:
            print(f"   {event.at - began:5.2f} s  {event.configuration}: {event.why}")
            if event.cause:
                print(f"            {event.cause}")

    # ---------------------------------------------------------------- 5. was anything lost?
    # All requests came back, in order. Unlike cores round differently, so numbers may differ in
    # their last digits where a task has moved.
    print(f"5. largest difference from the plan's outputs: {story.difference:.1e} of the largest")
    return story


def _bound(target: Path) -> float:
    with th.load(target) as ex:
        return float(1 / ex.schedule.lower_bound)


def _rates(rates: Mapping[str, float]) -> str:
    return ", ".join(f"{phase} {rate:.0f}/s" for phase, rate in rates.items())


def _stream(
    ex: Executor,
    inputs: Mapping[str, Any],
    seconds: float,
    core: int,
    reference: list[np.ndarray[Any, Any]],
) -> tuple[dict[str, float], float]:
    """Requests a second in each phase, and how far outputs are from the reference, relative."""
    rates: dict[str, float] = {}
    worst = 0.0
    for phase in PHASES:
        with disturb("busy", core) if phase == "busy" else ExitStack():
            start, count = time.monotonic(), 0
            for outputs in ex.map(_until(start + seconds, inputs)):
                count += 1
                worst = max(worst, *map(_difference, outputs, reference))
            rates[phase] = count / (time.monotonic() - start)
    return rates, worst


def _until(end: float, inputs: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The same inputs again and again, until it is so late."""
    while time.monotonic() < end:
        yield inputs


def _difference(value: Any, reference: np.ndarray[Any, Any]) -> float:
    return float(np.abs(value.numpy() - reference).max() / np.abs(reference).max())


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
