"""Random loops, scans and branches in each other: expanded, they give what ONNX Runtime gives.

    python -m tests.fuzz.onnx_loops [--count N] [--seconds S] [--first SEED] [--build]

Each seed is a model, of counters and conditions (`loop_models`) if it is even, of tensors and of
what goes on with them (`flow_models`) if it is odd, and a limit of nodes. Then must hold:

    same       what is expanded gives what ONNX Runtime makes of the model itself
    quicker    what is refused since its steps were counted ahead (`loop_steps`) is refused as well
               if they are not: counting decides nothing
    refusals   are of the file, none is a fault of ours
    built      with ``--build``: what is compiled of tensors gives it, too

What we refuse and ONNX Runtime answers is counted by its reason, and no fault: *too long* for the
limit, *no shape* of a loop without steps, ends *on data*.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.frontends.onnx.running import compute
from tests.fuzz.flow_models import flow_model
from tests.fuzz.loop_blocks import Array
from tests.fuzz.loop_models import loop_model
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.conversion.registry import converted_operators
from tvm_hetero.frontends.onnx.expansion import control_flow
from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph

FEEDS = {
    "x": np.array([1, -2], np.float32),
    "m": np.array([[0.5, -1], [2, 0.25], [-3, 1]], np.float32),
    "none": np.zeros((0, 2), np.float32),
}
# Of few nodes, a step too many that is counted is seen.
LIMITS = (60, 150, 600)
# Seconds after which a loop that we refuse is taken for endless, and one that we do not, for wrong.
_ENDLESS, _PATIENCE = 0.4, 60.0
_REASONS = {
    "its steps would make": "too long", "makes the model grow past": "too long",
    "does not follow from its body": "no shape", "goes on (at step": "on data",
}  # fmt: skip


def model_of(seed: int) -> onnx.ModelProto:
    """The model of a seed."""
    return flow_model(seed) if seed % 2 else loop_model(seed)


def limit_of(seed: int) -> int:
    """How many nodes the model of a seed may grow to."""
    return random.Random(-1 - seed).choice(LIMITS)


def expanded(model: onnx.ModelProto, nodes: int, *, ahead: bool = True) -> onnx.ModelProto:
    """The model without loops; `ahead` says whether their steps are counted before the first."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    limits = OnnxLimits(nodes=nodes)
    graph = OnnxGraph(copy, limits)
    with pytest.MonkeyPatch.context() as patch:
        if not ahead:
            patch.setattr(control_flow, "count_nodes", lambda *_: 0)
        expand_graph(graph, converted_operators(), limits)
    return graph.to_model()


class Endless(Exception):
    """ONNX Runtime did not end in time."""


def by_onnxruntime(model: onnx.ModelProto, seconds: float) -> list[Array]:
    """What ONNX Runtime makes of a model, without its optimizations.

    Raises
    ------
    Endless
        It took longer than that.
    """
    options, run = onnxruntime.SessionOptions(), onnxruntime.RunOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = run.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    timer = threading.Timer(seconds, lambda: setattr(run, "terminate", True))
    timer.start()
    try:
        feeds = {given.name: FEEDS[given.name] for given in session.get_inputs()}
        return list(session.run(None, feeds, run))
    except Exception as error:
        if run.terminate:
            raise Endless from error
        raise
    finally:
        timer.cancel()


def is_of_unknown_shape(ours: Array, theirs: Array) -> bool:
    """Whether ONNX Runtime stacked no pieces of a shape that it did not know, and we did.

    It takes 0 for what it does not know of it, and ONNX says nothing of that.
    """
    blind = theirs.shape == (0,) or theirs.ndim == ours.ndim
    known = all(length in (0, our) for length, our in zip(theirs.shape, ours.shape, strict=False))
    return ours.dtype == theirs.dtype and not ours.size and not theirs.size and blind and known


def difference(found: Sequence[Array], wanted: Sequence[Array]) -> str | None:
    """In what two lists of outputs differ; None if they do not."""
    for i, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if is_of_unknown_shape(ours, theirs):
            continue
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return f"output {i}: {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        # Counters are exact; sums of floats may be of another order.
        rounding = 1e-5 if ours.dtype.kind == "f" else 0
        if not np.allclose(ours, theirs, rtol=rounding, atol=rounding / 10, equal_nan=True):
            return f"output {i}: {ours.ravel()[:6]}, not {theirs.ravel()[:6]}"
    return None


def attempt(seed: int, *, build: bool = False) -> tuple[str, str]:
    """What became of the model of a seed, and why: same, wrong, invalid, endless, refused: why."""
    model, nodes = model_of(seed), limit_of(seed)
    try:
        found = expanded(model, nodes)
    except ModelError as error:
        return _judge_refusal(model, nodes, str(error))
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    status, why = _judge_values(model, found)
    return _judge_built(model) if build and seed % 2 and status == "same" else (status, why)


def _judge_built(model: onnx.ModelProto) -> tuple[str, str]:
    """Compile a model for one CPU, and run it."""
    try:
        feeds = {given.name: FEEDS[given.name] for given in model.graph.input}
        why = difference(compute(model, feeds), by_onnxruntime(model, _PATIENCE))
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    return ("same", "") if why is None else ("wrong", why)


def _judge_values(model: onnx.ModelProto, found: onnx.ModelProto) -> tuple[str, str]:
    try:
        wanted = by_onnxruntime(model, _PATIENCE)
    except Endless:
        return "wrong", f"expanded, and ONNX Runtime did not end within {_PATIENCE:.0f} s"
    except Exception as error:
        return "invalid", str(error)
    try:
        why = difference(by_onnxruntime(found, _PATIENCE), wanted)
    except Exception as error:
        why = f"ONNX Runtime refuses what expansion makes: {error}"
    return ("same", "") if why is None else ("wrong", why)


def _judge_refusal(model: onnx.ModelProto, nodes: int, why: str) -> tuple[str, str]:
    if "fault of tvm_hetero" in why:
        return "wrong", why
    if not _is_refused(model, nodes):
        return "wrong", f"refused only if its steps are counted ahead: {why}"
    try:
        by_onnxruntime(model, _ENDLESS)
    except Endless:
        return "endless", why
    except Exception as error:
        return "invalid", str(error)
    reasons = (reason for words, reason in _REASONS.items() if words in why)
    return f"refused: {next(reasons, 'else')}", why


def _is_refused(model: onnx.ModelProto, nodes: int) -> bool:
    """Whether a model is refused also where its steps are not counted ahead."""
    try:
        expanded(model, nodes, ahead=False)
    except ModelError:
        return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = harness_parser((__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, help="folder for models that are wrong")
    parser.add_argument("--build", action="store_true", help="compile those of tensors, too")
    args: Any = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for seed in seeds(args):
        status, why = attempt(seed, build=args.build)
        counts[status] += 1
        if status in ("wrong", "refused: else"):
            print(seed, status, " ".join(why.split())[:300], flush=True)
        if status == "wrong" and args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            onnx.save(model_of(seed), args.keep / f"{seed}.onnx")
    return conclude(__file__, args.first, counts, counts["wrong"])


if __name__ == "__main__":
    sys.exit(main())
