"""Nodes of a cluster that are killed or stopped at any moment: the answer is right, or an error.

    python -m tests.fuzz.cluster_losses [--count N] [--first SEED]

A model of eight kernels over three nodes, whose tensors of 16 MB move from node to node, so that a
moment by chance is mostly in the middle of a kernel or of a transfer. Each round a node gets
SIGKILL or SIGSTOP while a request is under way; what it answers is compared, and so is the next.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, helper

from tests.cluster.clusters import nodes, planned
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.cluster.description import Description, NodeRow
from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.executor import ClusterExecutor
from tvm_hetero.cluster.replan import ScheduledModel
from tvm_hetero.errors import HeteroError
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.frontends.onnx import from_onnx

_SIDE, _KERNELS, _NODES = 2000, 8, 3
_LONGEST = 90.0  # seconds for a request, the loss of a node within it included


def _model() -> ScheduledModel:
    names = ["x", *(f"t{i}" for i in range(_KERNELS))]
    chain = [helper.make_node("Softmax", [a], [b]) for a, b in itertools.pairwise(names)]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [_SIDE, _SIDE])]
        for name in (names[0], names[-1])
    ]
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph(chain, "chain", *ends), opset_imports=opset)
    return ScheduledModel(*planned(from_onnx(model), nodes(*[1] * _NODES), 5))


def _answer(executor: ClusterExecutor, values: np.ndarray, wanted: np.ndarray) -> str:
    """What a request came to: ``same``, ``refused`` with a text, or a fault."""
    found: list[str] = []

    def ask() -> None:
        try:
            same = np.array_equal(as_array(executor.run({"x": values})[0]), wanted)
            found.append("same" if same else "WRONG")
        except HeteroError as error:
            found.append(f"refused: {error}")
        except Exception as error:
            found.append(f"FAULT: {error!r}")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_LONGEST)
    return found[0] if found else "NO END"


def _lose(pid: int, sign: signal.Signals, seconds: float) -> threading.Timer:
    """Have a process die or stop in a moment."""
    timer = threading.Timer(seconds, os.kill, (pid, sign))
    timer.start()
    return timer


def _bring_back(cluster: Cluster, executor: ClusterExecutor, victim: str) -> None:
    """Wait until a node's loss is known, and begin it anew."""
    end = time.monotonic() + _LONGEST
    while victim not in cluster.lost and time.monotonic() < end:
        time.sleep(0.05)
    cluster.revive(victim)
    executor.recover(again=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try rounds one after the other; 1 if there was a fault."""
    parser = harness_parser(__doc__)
    asked = parser.parse_args(arguments)
    outcomes, faults = Counter[str](), 0
    warnings.simplefilter("ignore")
    values = np.random.default_rng(0).standard_normal((_SIDE, _SIDE)).astype(np.float32)
    rows = tuple(NodeRow(f"n{i}") for i in range(_NODES))
    cluster = Cluster(Description("local", rows), silence=3.0, beat=0.1)
    try:
        with ClusterExecutor(cluster, _model(), deadline=30.0, patience=0.3) as executor:
            wanted = as_array(executor.run({"x": values})[0]).copy()
            begin = time.monotonic()
            executor.run({"x": values})
            within = time.monotonic() - begin
            for number in seeds(asked):
                rng = random.Random(number)
                victim = rng.choice(executor.nodes)
                sign = rng.choice([signal.SIGKILL, signal.SIGSTOP])
                timer = _lose(cluster.pid(victim), sign, rng.random() * within)
                told = [_answer(executor, values, wanted)]
                timer.join()
                told.append(_answer(executor, values, wanted))
                good = told[0].startswith(("same", "refused")) and told[1] == "same"
                faults += not good
                outcomes[f"{sign.name}: {told[0].partition(':')[0]}"] += 1
                print(f"{number} {victim} {sign.name}: {', then '.join(told)}", flush=True)
                _bring_back(cluster, executor, victim)
    finally:
        cluster.close()
    return conclude(__file__, asked.first, outcomes, faults)


if __name__ == "__main__":
    sys.exit(main())
