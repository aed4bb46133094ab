"""The bottleneck of a measured run: the lane that was busy longest, and what kept it so."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_hetero.report.schedule.intervals import (
    COPY,
    Traced,
    busy_seconds,
    lane_order,
    measured_intervals,
    overlap_seconds,
    span,
)
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable

_WIDTH = 60  # of a name: a segment is called after all of its tasks


def warn_of_bottleneck(
    trace: Sequence[Traced], devices: Sequence[str], seconds: float | None = None
) -> str:
    """A warning that names what to make faster first.

    Parameters
    ----------
    trace : the steps of one run.
    devices : the names of the platform's devices, in order.
    seconds : what the shares are of; None: the run from its first start to its last end. For a
        pipeline, the time per batch.
    """
    run = measured_intervals(trace)
    total = span(run) if seconds is None else seconds
    if not run or total <= 0:
        return "Nothing ran."
    lanes = lane_order(run, devices)
    busy = {lane: busy_seconds(run, lane) for lane in lanes}
    worst = max(lanes, key=lambda lane: busy[lane])
    mine = [interval for interval in run if interval.lane == worst]
    longest = max(mine, key=lambda interval: interval.seconds)
    what = "copy" if longest.kind == COPY else "segment"
    name = printable(longest.name, _WIDTH)
    text = (
        f"Bottleneck: {worst}, busy for {_share(busy[worst], total)} of {format_seconds(total)}; "
        f"its longest {what} takes {format_seconds(longest.seconds)} ({name})"
    )
    others = [f"{lane} {_share(busy[lane], total)}" for lane in devices if lane != worst]
    both = ""
    if seconds is None:
        both = f"; several at once: {_share(overlap_seconds(run, devices), total)}"
    return f"{text}. Busy beside it: {', '.join(others) or 'nothing'}{both}."


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}".replace("%", " %") if math.isfinite(part) else "-"
