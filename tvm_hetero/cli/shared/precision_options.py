"""Options that say in which precision a model is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tvm_hetero.cli.shared.completion import offer
from tvm_hetero.errors import UsageError

PrecisionOption = Annotated[
    str,
    typer.Option(
        "--precision",
        help="float32; bfloat16 (every task that is quicker so); int8 (an ONNX model, quantised by "
        "ONNX Runtime); or auto (the tasks that gain the most in bfloat16 within --accuracy).",
        autocompletion=offer(lambda: ("auto", "bfloat16", "float32", "int8")),
    ),
]
AccuracyOption = Annotated[
    float | None,
    typer.Option(
        "--accuracy",
        help="With --precision auto or int8: the largest relative error of the outputs. "
        "[default: 0.01; with int8 any]",
    ),
]
CalibrationOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--calibration",
        metavar="X.npz",
        help="Inputs on which ranges and errors are measured; repeatable, every second one is held "
        "out. "
        "[default: random ones]",
    ),
]


ChecksOption = Annotated[
    int | None,
    typer.Option(
        "--checks",
        metavar="N",
        help="Random inputs, held out, that must keep --accuracy before it is promised: the more, "
        "the surer, and the longer it takes. [default: 300]",
    ),
]


def precision_settings(
    precision: str,
    accuracy: float | None,
    calibration: list[Path] | None,
    checks: int | None = None,
) -> dict[str, Any]:
    """What these options are in a `PartitionOptions`."""
    from tvm_hetero.cli.shared.measure import read_inputs

    inputs = tuple(read_inputs(path) for path in calibration or ())
    asked = {} if checks is None else {"checks": checks}
    return {"precision": precision, "accuracy": accuracy, "calibration": inputs, **asked}


def refuse_precision(precision: str, instead: str) -> None:
    """Refuse another precision than float32 where there is none; say what there is instead."""
    if precision != "float32":
        raise UsageError(f"--precision {precision}: {instead}")
