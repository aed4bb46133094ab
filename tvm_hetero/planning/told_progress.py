"""What `plan_decoder` says on the way: which plan is being made, and why it made no more.

A plan asks several solvers, some of them for several numbers of batches in flight. Each would say
why it stopped; here only the whole does.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_hetero.planning.decoder_plan import DecoderPlan
from tvm_hetero.problem.schedule import OPTIMAL_GAP
from tvm_hetero.solvers import Options
from tvm_hetero.util.units import format_seconds

_STOPPED = "stopped: "


def without_stops(options: Options) -> Options:
    """The options for solvers that are asked in turn: why each of them stopped is not passed on."""
    if options.tell is None:
        return options

    def tell(text: str) -> None:
        if not text.startswith(_STOPPED):
            options.say(text)

    return replace(options, tell=tell)


def say_number(options: Options, in_flight: int) -> None:
    """For how many batches in flight a plan is being made."""
    what = "batch" if in_flight == 1 else "batches"
    options.say(f"planning {in_flight} {what} in flight")


def say_why(plan: DecoderPlan, options: Options, *, few_batches: bool, late: bool) -> None:
    """Why no better plan is looked for.

    Parameters
    ----------
    few_batches : whether batches in flight are too few for a better plan to make more tokens.
    late : whether the time is up.
    """
    options.say(_STOPPED + _why(plan, options, few_batches=few_batches, late=late))


def _why(plan: DecoderPlan, options: Options, *, few_batches: bool, late: bool) -> str:
    gap = plan.schedule.gap
    if few_batches:
        more = "the time was up for more" if late else "more do not fit, or were not asked for"
        return (
            f"with {plan.in_flight} in flight, batches wait for their own steps and not for "
            f"devices; {more}"
        )
    if gap <= OPTIMAL_GAP:
        return "value and bound meet: proven optimal"
    if options.within_gap(plan.schedule.value, plan.schedule.lower_bound):
        return f"within the asked gap of {options.gap:.2%} of the bound"
    limit = format_seconds(options.time_limit)
    if late:
        return f"the time limit of {limit} is up, a gap of {gap:.2%} is left"
    return f"the work that a time limit of {limit} stands for is done, a gap of {gap:.2%} is left"
