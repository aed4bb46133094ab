"""Random float models, quantised as ``--precision int8`` does, against ONNX Runtime.

    python -m tests.fuzz.quantized_models [--seconds S] [--first SEED] [--keep FOLDER]

For each seed a float model grows of convolutions, products and what stands between them, some
values are outputs or read in the branches of an If, and some nodes are quantised by our own path
(`post_training`). Scales become powers of two, so that all sums are exact on both sides, and the
file is spoilt a little (`spoil`): scales of 0, axes that are not there, values read twice.
ONNX Runtime, without optimizations, and our kernels run what is left.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.frontends.onnx.running import compute
from tests.fuzz.float_models import FloatModel
from tests.fuzz.onnx_models import by_onnxruntime, difference, expanded
from tests.fuzz.spoilt_codes import spoil
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.errors import HeteroError
from tvm_hetero.frontends.onnx import check_model
from tvm_hetero.frontends.onnx.post_training import (
    prepare_model,
    quantizable_nodes,
    quantize_model,
)

Feeds = dict[str, "np.ndarray[Any, Any]"]


def quantized(seed: int, *, branches: bool = True) -> tuple[onnx.ModelProto, Feeds]:
    """A model in bytes, and inputs for it."""
    grown = FloatModel(seed, branches=branches)
    prepared = prepare_model(check_model(grown.model()))
    feeds = grown.feeds()
    nodes = [node.name for node in quantizable_nodes(prepared) if grown.flag(0.8)]
    made = quantize_model(prepared, [feeds], nodes) if nodes else prepared
    with_exact_scales(made)
    spoil(made, grown.rng)
    return made, feeds


def with_exact_scales(model: onnx.ModelProto) -> None:
    """Let scales be powers of two, and those of biases the product of both others, in place."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}
    codes = [n for n in model.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    scales = {name: numpy_helper.to_array(tensors[name]) for n in codes for name in n.input[1:2]}
    exact = {name: np.exp2(np.round(np.log2(each))) for name, each in scales.items()}
    for node in model.graph.node:
        sides = [makers.get(name) for name in node.input[:3]]
        known = [side for side in sides if side is not None and side.op_type == "DequantizeLinear"]
        if node.op_type in ("Conv", "Gemm") and len(known) == 3:
            x, weights, bias = (side.input[1] for side in known)
            exact[bias] = exact[x].reshape(-1) * exact[weights].reshape(-1)
            exact[bias] = exact[bias].reshape(scales[bias].shape)
    for name, each in exact.items():
        tensors[name].CopyFrom(numpy_helper.from_array(each.astype(np.float32), name))


def attempt(seed: int, *, build: bool = True) -> tuple[str, str]:
    """What became of the model of a seed: same, invalid, refused, taken or wrong; and why.

    Without `build` ONNX Runtime runs what expansion makes of it, which leaves no If.
    """
    model, feeds = quantized(seed, branches=build)
    wanted = by_onnxruntime(model, feeds)
    try:
        if build:
            found: list[Any] | None = compute(model, feeds)
        else:
            found = by_onnxruntime(expanded(model), feeds)
    except HeteroError as error:
        return ("invalid" if wanted is None else "refused"), str(error)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    if wanted is None:
        return "taken", "ONNX Runtime refuses it"
    if found is None:
        return "wrong", "ONNX Runtime refuses what expansion makes"
    why = difference(found, wanted)
    return ("same", "") if why is None else ("wrong", why)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = harness_parser(__doc__)
    parser.add_argument("--keep", type=Path, help="folder for models that differ")
    args = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for seed in seeds(args):
        status, why = attempt(seed)
        counts[status] += 1
        if status in ("wrong", "refused", "taken"):
            print(seed, status, " ".join(why.split())[:300], flush=True)
            if args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                onnx.save(quantized(seed)[0], args.keep / f"{seed}.onnx")
    return conclude(__file__, args.first, counts, counts["wrong"])


if __name__ == "__main__":
    sys.exit(main())
