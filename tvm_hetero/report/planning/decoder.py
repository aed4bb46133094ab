"""A plan of a decoder for a reader: where its layers stand, what it is worth, how good that is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tvm_hetero.planning.decoder_plan import DecoderPlan
from tvm_hetero.planning.layers import Holding, holdings
from tvm_hetero.planning.symmetry_counts import SymmetryCounts, symmetry_counts
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.html import Figure, HtmlTable, Page
from tvm_hetero.report.schedule.text import plan_page, proof, quantity
from tvm_hetero.util.text_tables import counted, table
from tvm_hetero.util.units import format_bytes, format_seconds

# Devices of which every one is listed; of more, as many nodes as hold so many.
MOST_ROWS = 72
PARTITION_HEADERS = ("device", "holds", "memory", "of", "busy")


def decoder_plan_text(plan: DecoderPlan, *, every: bool = False) -> str:
    """The partition, its figures and what its symmetry saved, as text."""
    return "\n".join(
        [
            partition_table(plan, every=every),
            "",
            figures_table(plan),
            "",
            *_sentences(plan, symmetry_counts(plan.problem)),
        ]
    )


def partition_table(plan: DecoderPlan, *, every: bool = False) -> str:
    """Node, device, what it holds, its memory, and how busy it is."""
    found = holdings(plan.problem, plan.schedule)
    kept = found if every else _first_nodes(found)
    rows = [_row(plan, holding) for holding in kept]
    text = table(PARTITION_HEADERS, rows)
    if len(kept) < len(found):
        more = len(found) - len(kept)
        text += f"\n... and {counted(more, 'device')} more (--all or --json lists them)"
    return text


def _first_nodes(found: tuple[Holding, ...]) -> tuple[Holding, ...]:
    """The devices of the first nodes, at most `MOST_ROWS`."""
    if len(found) <= MOST_ROWS:
        return found
    last = found[MOST_ROWS].node
    kept = tuple(h for h in found[:MOST_ROWS] if h.node != last)
    return kept or found[:MOST_ROWS]


def _row(plan: DecoderPlan, holding: Holding) -> list[str]:
    capacity = holding.capacity
    return [
        holding.device,
        holding.holds,
        format_bytes(holding.memory),
        "unlimited" if capacity is None else f"{holding.memory / capacity:.0%}".replace("%", " %"),
        f"{_busy(plan, holding):.0%}".replace("%", " %"),
    ]


def _busy(plan: DecoderPlan, holding: Holding) -> float:
    """The share of the time that a device computes, all batches full."""
    return holding.seconds * plan.tokens_per_second / plan.wish.batch


def figures_table(plan: DecoderPlan) -> str:
    """Tokens, seconds, bound and gap, one a line."""
    schedule, kind = plan.schedule, plan.schedule.kind
    sequences = counted(plan.wish.batch, "sequence")
    rows: list[list[str]] = [
        ["predicted seconds a token", format_seconds(plan.seconds_per_token), "of one sequence"],
        [
            "predicted tokens a second",
            f"{plan.tokens_per_second:.4g}",
            f"{sequences} in each of {counted(plan.in_flight, 'batch', 'batches')} in flight",
        ],
        *_at_best(plan),
        ["one batch alone", format_seconds(plan.pass_seconds), "through all devices"],
        ["busiest device", format_seconds(plan.period), "for each batch"],
        [
            f"lower bound of the {quantity(kind)}",
            format_seconds(schedule.lower_bound),
            f"{proof(schedule)}; {schedule.solver}",
        ],
    ]
    single = schedule.best_single_device
    if single is None:
        rows.append(["best single device", "-", "no device can do it alone"])
    else:
        rows.append(["best single device", format_seconds(single.value), single.device])
    rows.append(["planned in", format_seconds(plan.seconds), ""])
    return table(["figure", "value", "what"], rows)


def _at_best(plan: DecoderPlan) -> list[list[str]]:
    if plan.played is None:
        return []
    return [["... at best", f"{plan.at_best:.4g}", "if batches waited for the busiest device only"]]


def _sentences(plan: DecoderPlan, counts: SymmetryCounts) -> list[str]:
    sentences = (_filling(plan), _sharing(plan.schedule), symmetry_text(counts))
    return [text for text in sentences if text]


def _filling(plan: DecoderPlan) -> str:
    """What batches in flight are good for here."""
    full = plan.wish.batch / plan.period if plan.period > 0 else math.inf
    if plan.in_flight >= plan.needed:
        return (
            f"In flight: {plan.in_flight}; with fewer than {plan.needed} even the busiest device "
            "would wait."
        )
    return (
        f"In flight: {plan.in_flight}; {plan.needed} or more would keep the busiest device busy "
        f"and make up to {full:.4g} tokens a second, where memory has room for their caches "
        "(--in-flight)."
    )


def _sharing(schedule: Schedule) -> str:
    shared = [task for task, devices in schedule.placement.items() if len(devices) > 1]
    if not shared:
        return ""
    what = counted(len(shared), "task")
    return f"Shared: {what}, of which several devices compute some of the sequences each."


def symmetry_text(counts: SymmetryCounts) -> str:
    """What counting devices saved, in two sentences."""
    if counts.exchanges == 1:
        return "Symmetry: no two devices can change places; nothing was saved."
    return (
        f"Symmetry: {counts.exchanges:.4g} ways to exchange equal devices and nodes make "
        f"10^{counts.placements:.1f} placements 10^{counts.classes:.1f} kinds of placements; the "
        f"table of devices in use has {counts.counted} rows where names would need "
        f"{counts.named:.4g}."
    )


def decoder_plan_page(plan: DecoderPlan) -> Page:
    """A page about the plan: its figures, one batch over time, and the partition."""
    base = plan_page(plan.schedule, plan.problem)
    rows = [_row(plan, holding) for holding in holdings(plan.problem, plan.schedule)]
    figures = [
        Figure("tokens a second", f"{plan.tokens_per_second:.4g}", "predicted"),
        Figure("seconds a token", format_seconds(plan.seconds_per_token), "predicted"),
    ]
    return replace(
        base,
        subtitle=" ".join(_sentences(plan, symmetry_counts(plan.problem))),
        figures=[*figures, *base.figures],
        tables=[HtmlTable("Partition", PARTITION_HEADERS, rows)],
    )


def decoder_plan_dict(plan: DecoderPlan) -> dict[str, Any]:
    """The same for machines."""
    schedule = plan.schedule
    counts = symmetry_counts(plan.problem)
    return {
        "model": plan.wish.model,
        "parameters": dict(plan.wish.parameters),
        "platform": plan.wish.platform.name,
        "objective": plan.wish.kind,
        "batch": plan.wish.batch,
        "in_flight": plan.in_flight,
        "in_flight_needed": plan.needed,
        "seconds_per_token": plan.seconds_per_token,
        "tokens_per_second": plan.tokens_per_second,
        "tokens_per_second_at_best": plan.at_best,
        "pass_seconds": plan.pass_seconds,
        "period": plan.period,
        "value": schedule.value,
        "lower_bound": schedule.lower_bound,
        "gap": plan.gap,
        "solver": schedule.solver,
        "problem": schedule.problem,
        "seconds": plan.seconds,
        "devices": [
            {
                "device": holding.device,
                "node": holding.node,
                "holds": holding.holds,
                "tasks": holding.tasks,
                "shared": holding.shared,
                "memory": holding.memory,
                "capacity": holding.capacity,
                "busy": _busy(plan, holding),
            }
            for holding in holdings(plan.problem, schedule)
        ],
        "symmetry": {
            "exchanges": counts.exchanges,
            "log10_placements": counts.placements,
            "log10_classes": counts.classes,
            "named_sets": counts.named,
            "counted_sets": counts.counted,
            "kinds_of_devices": counts.types,
        },
    }
