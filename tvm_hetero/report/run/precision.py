"""The precision of a plan's tasks, for people: what was promised, what was measured, by task."""

from __future__ import annotations

from typing import Any

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.precision_promise import AUTO, BFLOAT16, INT8, PrecisionPromise
from tvm_hetero.util.text_tables import count_noun, format_table
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable

_HEADERS = ["task", "precision", "error alone"]
_HOW = {BFLOAT16: "in bfloat16", AUTO: "in bfloat16", INT8: "multiply bytes"}
_RANDOM = (
    "(random inputs say little of a model whose own are nothing like them: give some that are, "
    "--calibration X.npz)"
)


def precision_text(promise: PrecisionPromise | None, problem: Problem) -> str:
    """What was promised and what was measured, in a few lines."""
    total = len(_computing(problem))
    if promise is None:
        return f"precision: {count_noun(total, 'task')} as the model has them"
    how = _HOW[promise.precision]
    head = f"precision {promise.precision}: {len(promise.tasks)} of {total} tasks {how}"
    if promise.reason:
        head += f" ({printable(promise.reason)})"
    lines = [head + _gain(promise)]
    if promise.measured is not None:
        lines.append(_errors(promise))
    if promise.tasks and promise.exceeding is not None:
        lines.append(_promised(promise))
    if promise.seed is not None:
        lines.append(_RANDOM)
    return "\n".join(lines)


def _gain(promise: PrecisionPromise) -> str:
    if promise.seconds is None or promise.seconds_float32 is None or not promise.tasks:
        return ""
    before, after = (format_seconds(s) for s in (promise.seconds_float32, promise.seconds))
    return f"; kernels {before} in float32, {after} so"


def _errors(promise: PrecisionPromise) -> str:
    """``largest relative error: allowed 0.01, predicted 0.0081, measured 0.0079 on 2 inputs...``"""
    parts = []
    if promise.accuracy is not None:
        parts.append(f"allowed {promise.accuracy:.3g}")
    if promise.predicted is not None:
        parts.append(f"predicted {promise.predicted:.3g}")
    parts.append(f"measured {promise.measured:.3g} on {count_noun(promise.inputs, 'input')}")
    if promise.held_out is not None:
        others = count_noun(promise.held_out_inputs, "other")
        parts.append(f"{promise.held_out:.3g} on {others}")
    if promise.rare is not None:
        parts.append(f"{promise.rare:.3g} expected of one in a thousand")
    return f"{printable(promise.metric)}: {', '.join(parts)}"


def _promised(promise: PrecisionPromise) -> str:
    """``promised with 95 % confidence: at most 1.7 % of inputs drawn ... are off by more``"""
    if not promise.held_out_inputs:
        return "promised: nothing of other inputs, as none was held out"
    kinds = ", ".join(map(printable, promise.kinds))
    like = f"random inputs ({kinds}, equally often)" if kinds else "inputs like those given"
    share, sure = 100 * (promise.exceeding or 0.0), 100 * (promise.confidence or 0.0)
    return f"promised with {sure:.3g} % confidence: at most {share:.2g} % of {like} are off by more"


def precision_table(promise: PrecisionPromise | None, problem: Problem) -> str:
    """What `precision_text` says; then each task, and the error that it makes alone."""
    if promise is None:
        return precision_text(promise, problem)
    rows: list[list[object]] = []
    narrow = INT8 if promise.precision == INT8 else BFLOAT16
    for task in _computing(problem):
        error = promise.tasks.get(task)
        alone = "-" if error is None else f"{error:.3g}"
        rows.append([printable(task), narrow if task in promise.tasks else "given", alone])
    return f"{precision_text(promise, problem)}\n\n{format_table(_HEADERS, rows)}"


def precision_json(promise: PrecisionPromise | None) -> dict[str, Any] | None:
    """The promise for machines; None where all is in float32 as the model says."""
    return None if promise is None else promise.to_dict()


def _computing(problem: Problem) -> list[str]:
    """The tasks that compute: not those that only stand for inputs and outputs."""
    return [task.id for task in problem.tasks if task.id[:1].isdigit()]
