"""Record what blocks take on this machine, for the simulator of online policies and its tests.

    python -m benchmarks.record                    all, writes recordings/NAME.json
    python -m benchmarks.record --models resnet50,vgg16 --seconds 2 --output FOLDER

Light models of the onnx wheel and the networks of the papers (`execution/paper_networks.py`), on
cores as they are and on the same cores with code for x86-64-v2, one and two of them, alone and
under each disturbance (`tvm_hetero.online.record`). Kernels are measured first, which takes minutes
and is remembered.

What else runs on the machine is in the times. Where it cannot be sent away, a session of its own
gives this program and its disturbers, together, nearly all of the cores (as root):

    setsid sh -c 'echo -20 > /proc/self/autogroup; python -m benchmarks.record'

A real-time priority would not do: the disturber on a place's own core would never run.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from benchmarks.execution.argument_types import count, duration, names_of
from benchmarks.execution.cases import TINY, make_model
from benchmarks.execution.paper_networks import PAPER_NETWORKS
from tvm_hetero.frontends.onnx import from_onnx, light_models
from tvm_hetero.online.record.places import parse_places
from tvm_hetero.online.record.recorder import RecordingPlan, prepare, record
from tvm_hetero.online.record.scenarios import parse_scenarios
from tvm_hetero.online.table import Recording

FOLDER = Path(__file__).parent / "recordings"
MODELS = ("squeezenet", "inception_v1", "resnet50", "densenet121", *PAPER_NETWORKS)
PLACES = ("native:1,2", "x86-64-v2:1,2")
DISTURBANCES = ("busy", "stream", "thrash", "stream@own")
NOISE = 2000


def main(argv: Sequence[str] | None = None) -> list[Recording]:
    """Record and write all that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = (*MODELS, *light_models(), TINY)
    parser.add_argument("--models", default=MODELS, type=names_of(known), help="NAME,NAME,...")
    parser.add_argument("--places", default=" ".join(PLACES), help="with spaces between")
    parser.add_argument("--seconds", type=duration, default=2.0, help="in each scenario")
    parser.add_argument("--noise", type=count, default=NOISE, help="requests at rest")
    parser.add_argument("--cost-model", default="profiled-alone", help="chooses kernels")
    parser.add_argument("--output", type=Path, default=FOLDER)
    args = parser.parse_args(argv)
    plan = RecordingPlan(
        parse_places(args.places.split()), parse_scenarios(DISTURBANCES), args.seconds,
        args.noise, args.cost_model,
    )  # fmt: skip
    made = []
    for name in args.models:
        recording = record(prepare(from_onnx(model_of(name)), plan), plan)
        made.append(replace(recording, name=name))  # as its file
        made[-1].save(args.output / f"{name}.json")
        print(line(made[-1]), flush=True)
    return made


def model_of(name: str) -> onnx.ModelProto:
    """A network of a paper, or what `make_model` has of that name."""
    return PAPER_NETWORKS[name]() if name in PAPER_NETWORKS else make_model(name)


def line(recording: Recording) -> str:
    """Milliseconds of all blocks on each place, and the disturbances as multiples."""
    parts = []
    for kind, widths in recording.kinds.items():
        for width in widths:
            totals = [math.fsum(recording.seconds[s][kind][width]) for s in recording.scenarios]
            factors = " ".join(
                f"{scenario} {total / totals[0]:.2f}"
                for scenario, total in zip(recording.scenarios[1:], totals[1:], strict=True)
            )
            parts.append(f"  {kind}:{width} {1e3 * totals[0]:.2f} ms; {factors}")
    return "\n".join([recording.name, *parts])


if __name__ == "__main__":
    main()
