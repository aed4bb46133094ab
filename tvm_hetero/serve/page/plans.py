"""Pictures of the plans by which models run, with their proofs; of the plan that runs now.

The picture is the one of `tvm-hetero show`. It says what was predicted when the model was
partitioned; what it takes now is told beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.artifact.executable import PARTITION, SINGLE
from tvm_hetero.executor.executor import Executor
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.gantt import gantt_svg
from tvm_hetero.report.schedule.text import (
    compare_with_single,
    format_gap,
    name_bottleneck,
    plan_chart,
    plan_figures,
    plan_lanes,
)
from tvm_hetero.serve.models.served_decoder import DecoderSteps
from tvm_hetero.serve.models.served_model import ServedModel

_KEPT = 64  # numbers of plans that are told apart


@dataclass(frozen=True)
class PlanPicture:
    """A plan, drawn and described.

    Attributes
    ----------
    svg : the chart, without its style (`report.schedule.gantt.STYLE`).
    figures : label, value, note.
    proof, bottleneck, comparison : in words.
    alone : whether the model runs on one device alone instead, as that was measured to be faster.
    """

    svg: str
    figures: list[tuple[str, str, str]]
    proof: str
    bottleneck: str
    comparison: str
    alone: bool


class PlanPictures:
    """Numbers of plans, so that whoever has seen one asks again only when there is another."""

    def __init__(self) -> None:
        self._plans: list[tuple[Schedule, str]] = []
        self._first = 0

    def number(self, model: ServedModel) -> int:
        """Of the plan that the model runs by now: another one for another plan."""
        executor = executor_of(model)
        plan = executor.schedule, variant_of(executor)
        for place in reversed(range(len(self._plans))):
            if self._plans[place][0] is plan[0] and self._plans[place][1] == plan[1]:
                return self._first + place
        self._plans.append(plan)
        dropped = max(0, len(self._plans) - _KEPT)
        del self._plans[:dropped]
        self._first += dropped
        return self._first + len(self._plans) - 1


def executor_of(model: ServedModel) -> Executor | DecoderSteps:
    """What runs a model; of a decoder, its steps."""
    if model.tensors is not None:
        return model.tensors.executor
    assert model.decoder is not None
    return model.decoder.steps


def variant_of(executor: Executor | DecoderSteps) -> str:
    """Which plan of the artifact runs; on a cluster it is the partition."""
    return executor.variant if isinstance(executor, Executor) else PARTITION


def draw_plan(executor: Executor | DecoderSteps) -> PlanPicture:
    """Draw the plan that runs now; takes milliseconds for hundreds of kernels."""
    schedule, problem = executor.schedule, executor.problem
    chart = plan_chart(schedule, problem)
    svg = gantt_svg(
        chart.intervals, lanes=plan_lanes(schedule, problem), marks=chart.marks, standalone=False
    )
    figures = [(each.label, each.value, each.note) for each in plan_figures(schedule)]
    return PlanPicture(
        svg, figures, tell_proof(schedule), name_bottleneck(schedule, problem),
        "" if schedule.best_single_device is None else compare_with_single(schedule),
        variant_of(executor) == SINGLE,
    )  # fmt: skip


def tell_proof(schedule: Schedule) -> str:
    """How good a plan is, for who has never heard of bounds."""
    if schedule.status == "optimal":
        return "proven that no plan is better"
    if schedule.lower_bound <= 0:
        return "not proven how good it is"
    return f"a better plan could save {format_gap(schedule.gap)} at most"
