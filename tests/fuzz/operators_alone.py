"""Operators alone, with drawn attributes, types and shapes, against ONNX Runtime and onnx itself.

    python -m tests.fuzz.operators_alone [--count N] [--seconds S] [--first SEED] [--only OP ...]

Each seed draws a form (`operator_forms`); it is imported, compiled and run, and compared with
onnx's reference evaluator and with ONNX Runtime. Where both say the same, so must we; where they
differ, we have to be like one of them, and the line says which. A refusal names why; anything else
that is raised is a fault.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

from tests.fuzz import (  # noqa: F401  (register forms)
    elementwise_forms,
    indexing_forms,
    moving_forms,
    network_forms,
    window_forms,
)
from tests.fuzz.onnx_models import by_onnxruntime, by_us
from tests.fuzz.operator_forms import FORMS, draw_form
from tests.fuzz.tally import conclude, harness_parser, seeds
from tvm_hetero.errors import HeteroError

MISREAD = {
    "LRN": "counts batches where it should count channels",
    "LSTM": "leaves out input_forget, clip and activations",
    "GRU": "leaves out clip and activations",
    "RNN": "leaves out clip and lengths, and turns nothing round",
    "LpPool": "pads a dilated window as one that is not",
}
"""What onnx's evaluator computes otherwise than its own text says; ONNX Runtime alone is asked."""

_ROUNDING = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-6}


def by_reference(model: ModelProto, feeds: Mapping[str, Any]) -> list[Any] | None:
    """What onnx's own evaluator makes of it; None if it cannot."""
    if model.graph.node[0].op_type in MISREAD:
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = [np.asarray(y) for y in ReferenceEvaluator(model).run(None, dict(feeds))]
    except Exception:
        return None
    declared = [
        helper.tensor_dtype_to_np_dtype(y.type.tensor_type.elem_type) for y in model.graph.output
    ]
    # NumPy's sums of few bits have more of them.
    return made if [y.dtype for y in made] == declared else None


def unlike(found: Sequence[Any], wanted: Sequence[Any]) -> str | None:
    """In what outputs differ by more than rounding."""
    for i, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"output {i}: {ours.dtype}{ours.shape}, not {theirs.dtype}{theirs.shape}"
        allowed = _ROUNDING.get(str(theirs.dtype), 0.0)
        with np.errstate(all="ignore"):
            finite = np.abs(theirs[np.isfinite(theirs)].astype(np.float64))
            scale = min(float(finite.max(initial=1.0)), 1e4)
            same = np.isclose(ours.astype(np.float64), theirs.astype(np.float64), allowed,
                              allowed * scale, equal_nan=True)  # fmt: skip
            if theirs.dtype.kind != "f":
                same = ours == theirs
        if not np.all(same):
            return f"output {i}: {ours[~same].ravel()[:4]}, not {theirs[~same].ravel()[:4]}"
    return None


def attempt(seed: int, only: Sequence[str] = ()) -> tuple[str, str]:
    """What became of the form of a seed, and why."""
    form, opset = draw_form(seed, only)
    what = f"opset {opset}: {form}"
    try:
        model = form.model(opset)
    except Exception:
        return "invalid", what
    feeds = form.feeds()
    asked = {"onnx": by_reference(model, feeds), "ONNX Runtime": by_onnxruntime(model, feeds)}
    wanted = {who: outputs for who, outputs in asked.items() if outputs is not None}
    if not wanted:
        return "invalid", what
    try:
        found = by_us(model, feeds)
    except HeteroError as error:
        return "refused", f"{what}: {' '.join(str(error).split())[:300]}"
    except Exception as error:
        return "wrong", f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    differences = {who: unlike(found, outputs) for who, outputs in wanted.items()}
    if not any(differences.values()):
        return "same", what
    said = "; ".join(f"{who}: {text}" for who, text in differences.items() if text)
    alike = [who for who, text in differences.items() if text is None]
    return (f"like {alike[0]} alone" if alike else "wrong"), f"{what}: {said}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = harness_parser(__doc__)
    parser.add_argument("--only", nargs="*", default=[], choices=sorted(FORMS))
    args = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for seed in seeds(args):
        status, why = attempt(seed, args.only)
        counts[status] += 1
        if status not in ("same", "invalid"):
            print(seed, status, why, flush=True)
    return conclude(__file__, args.first, counts, counts["wrong"])


if __name__ == "__main__":
    sys.exit(main())
