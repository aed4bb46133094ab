"""What a simulated service did, for a reader: rates, percentiles, shares, and what is saturated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_hetero.planning.service import Served, Service, ServiceOutcome
from tvm_hetero.problem.objective import Resource
from tvm_hetero.util.text_tables import count_noun, format_table
from tvm_hetero.util.units import format_seconds

PERCENTILES = (50, 90, 99)
# A share of the time from which on a device, or the slots together, count as saturated.
SATURATED = 0.95
# Requests without a slot, in parts of the slots, from which on these are saturated.
_QUEUE = 0.25
_MOST_ROWS = 24
_TIMES: tuple[tuple[str, str, Callable[[Served], float]], ...] = (
    ("time_to_first_token", "time to first token", lambda served: served.to_first),
    ("time_per_output_token", "time per output token", lambda served: served.each),
    ("latency", "latency", lambda served: served.in_system),
)


def service_text(service: Service, outcome: ServiceOutcome, cut: int = 0) -> str:
    """Rates, times and shares of a simulation as text, and what saturates."""
    lines = [
        rates_table(service, outcome),
        "",
        times_table(outcome),
        "",
        busy_table(outcome),
        "",
        explain_saturation(service, outcome),
    ]
    if cut:
        what = count_noun(cut, "request")
        lines.append(f"Cut: {what} asked for more tokens than the caches have rows.")
    return "\n".join(lines)


def rates_table(service: Service, outcome: ServiceOutcome) -> str:
    """What was done within the window."""
    slots = service.groups * service.batch
    begin, end = (format_seconds(t) for t in outcome.window)
    done = sum(outcome.window[0] <= s.last <= outcome.window[1] for s in outcome.served)
    rows = [
        ["window", f"{begin} to {end}", f"{count_noun(len(outcome.counted), 'request')} arrived"],
        ["output tokens a second", f"{outcome.tokens / outcome.seconds:.4g}", ""],
        ["requests a second", f"{done / outcome.seconds:.4g}", "done"],
        ["steps", f"{outcome.steps}", f"{outcome.active:.3g} sequences in each, in the mean"],
        ["chunks of prompts", f"{outcome.chunks}", f"of {count_noun(service.chunk, 'token')}"],
        ["slots taken", f"{outcome.occupied:.4g}", f"of {slots}, in the mean"],
        ["waiting at the end", f"{outcome.waiting}", "without a slot"],
    ]
    return format_table(["figure", "value", "what"], rows)


def times_table(outcome: ServiceOutcome) -> str:
    """Percentiles of the times of requests."""
    rows = []
    for _, name, of in _TIMES:
        values = _values(outcome, of)
        cells = [format_seconds(value) for value in _percentiles(values)] if values else ["-"] * 3
        mean = format_seconds(math.fsum(values) / len(values)) if values else "-"
        rows.append([name, mean, *cells])
    return format_table(["time", "mean", *(f"p{p}" for p in PERCENTILES)], rows)


def _values(outcome: ServiceOutcome, of: Callable[[Served], float]) -> list[float]:
    return [value for value in map(of, outcome.counted) if not math.isnan(value)]


def _percentiles(values: Sequence[float]) -> list[float]:
    return [float(np.percentile(values, p)) for p in PERCENTILES]


def busy_table(outcome: ServiceOutcome) -> str:
    """The share of the window that each device (or exclusive link) was busy, busiest first."""
    ranked = sorted(outcome.busy.items(), key=lambda row: (-row[1], str(row[0])))
    rows = [[name_of(r), f"{share:.1%}".replace("%", " %")] for r, share in ranked[:_MOST_ROWS]]
    text = format_table(["device", "busy"], rows)
    more = len(ranked) - _MOST_ROWS
    return text if more <= 0 else f"{text}\n... and {count_noun(more, 'device')} less busy"


def name_of(resource: Resource) -> str:
    """A device by name, a link by its ends, a core of teams by its node and number."""
    if isinstance(resource, str):
        return resource
    return " → ".join(resource) if len(resource) == 2 else f"core {resource[2]} of {resource[1]}"


def explain_saturation(service: Service, outcome: ServiceOutcome) -> str:
    """What keeps the service from doing more, in one sentence."""
    name, share = max(outcome.busy.items(), key=lambda row: row[1], default=("nothing", 0.0))
    text = f"{name_of(name)} is busiest, for {share:.0%} of the time".replace("%", " %")
    slots = service.groups * service.batch
    if share >= SATURATED:
        return f"Saturated: {text}; only a plan with less work on it serves more."
    if outcome.occupied >= SATURATED * slots or outcome.waiting >= max(2.0, _QUEUE * slots):
        return (
            f"Saturated: all {slots} slots are taken, and {outcome.waiting} requests wait for one; "
            f"{text}. More batches in flight or larger ones would serve more, if memory has room "
            "for their caches."
        )
    return f"Not saturated: {text}; {outcome.occupied:.3g} of {slots} slots are taken."


def service_dict(service: Service, outcome: ServiceOutcome, cut: int = 0) -> dict[str, Any]:
    """The same for machines."""
    times: dict[str, Any] = {}
    for key, _, of in _TIMES:
        values = _values(outcome, of)
        found = _percentiles(values) if values else [None] * len(PERCENTILES)
        times[key] = {"mean": math.fsum(values) / len(values) if values else None} | {
            f"p{p}": value for p, value in zip(PERCENTILES, found, strict=True)
        }
    begin, end = outcome.window
    return {
        "window": [begin, end],
        "requests": len(outcome.served),
        "cut": cut,
        "tokens_per_second": outcome.tokens / outcome.seconds,
        "requests_per_second": sum(begin <= s.last <= end for s in outcome.served)
        / outcome.seconds,
        "steps": outcome.steps,
        "chunks": outcome.chunks,
        "sequences_per_step": outcome.active,
        "slots": service.groups * service.batch,
        "slots_taken": outcome.occupied,
        "waiting": outcome.waiting,
        "in_system": outcome.in_system,
        **times,
        "busy": {name_of(resource): share for resource, share in outcome.busy.items()},
        "saturated": explain_saturation(service, outcome),
    }
