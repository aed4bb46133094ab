"""What ``tvm-hetero adapt`` found, for people, for pages and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tvm_hetero.online.comparison.outcome import (
    BestRates,
    PlanChange,
    StreamFigures,
    StreamOutcome,
    measure_outcome,
    rate_points,
)
from tvm_hetero.online.comparison.spans import DisturbedSpans
from tvm_hetero.report.online.rate_bars import rate_bars, shade_line
from tvm_hetero.util.text_tables import format_table
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm_hetero.report.online.rate_chart import RateRow
    from tvm_hetero.report.schedule.html import Page

HEADERS = ("policy", "before", "disturbed", "after", "of the best", "trials", "switches",
           "p50", "p99", "to 90 %")  # fmt: skip
_CHANGE_HEADERS = ("at", "request", "what", "configuration", "why")
# Windows of a picture's row, and of a line of text.
_POINTS, _COLUMNS = 240, 60
# Changes of a policy that a page lists.
_LISTED = 500


@dataclass(frozen=True)
class PolicyComparison:
    """Streams of several policies under the same disturbance.

    Attributes
    ----------
    title : of what, and with what it was disturbed, for people.
    """

    title: str
    spans: DisturbedSpans
    best: BestRates
    outcomes: Sequence[StreamOutcome]

    def figures(self, outcome: StreamOutcome) -> StreamFigures:
        """The figures of one of the streams."""
        return measure_outcome(outcome, self.spans, self.best)


def comparison_text(compared: PolicyComparison) -> str:
    """A table, the best there is, throughput over time, and notes."""
    table = format_table(HEADERS, figure_rows(compared))
    notes = [f"{o.policy}: {printable(o.note, limit=None)}" for o in compared.outcomes if o.note]
    return "\n".join([table, "", best_text(compared.best), "", *_bars(compared), *_apart(notes)])


def _apart(notes: list[str]) -> list[str]:
    return ["", *notes] if notes else []


def figure_rows(compared: PolicyComparison) -> list[list[str]]:
    """A row a policy, as `HEADERS` says."""
    return [_figure_row(o.policy, compared.figures(o), compared.best) for o in compared.outcomes]


def _figure_row(policy: str, figures: StreamFigures, best: BestRates) -> list[str]:
    share = "-"
    if figures.disturbed is not None and best.disturbed is not None:
        share = f"{figures.disturbed / best.disturbed:.0%}"
    recovery = "-" if figures.recovery is None else format_seconds(figures.recovery)
    rates = (figures.before, figures.disturbed, figures.after)
    return [
        policy, *map(_rate, rates), share, str(figures.trials), str(figures.switches),
        format_seconds(figures.p50), format_seconds(figures.p99), recovery,
    ]  # fmt: skip


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.4g} /s"


def best_text(best: BestRates) -> str:
    """What the best configuration has."""
    if best.disturbed is None or best.quiet is None:
        return f"The best configuration is not known: {best.how}."
    return (
        f"The best: {_rate(best.quiet)} in quiet, {_rate(best.disturbed)} disturbed ({best.how})."
    )


def _bars(compared: PolicyComparison) -> list[str]:
    """Throughput over time, a line a policy, what disturbed below it."""
    points = {o.policy: rate_points(o, _POINTS) for o in compared.outcomes}
    seconds = max(o.ended[-1] for o in compared.outcomes)
    rate = max((r for row in points.values() for _, r in row), default=1.0)
    wide = max(len(o.policy) for o in compared.outcomes)
    lines = [f"requests/s over {format_seconds(seconds)}, up to {_rate(rate)}; ▒ disturbed"]
    for outcome in compared.outcomes:
        bars = rate_bars(points[outcome.policy], seconds, rate, _COLUMNS)
        shades = shade_line(shaded(outcome, compared.spans), seconds, _COLUMNS)
        lines += [f"{outcome.policy:{wide}}  {bars}", f"{'':{wide}}  {shades}".rstrip()]
    return lines


def shaded(outcome: StreamOutcome, spans: DisturbedSpans) -> list[tuple[float, float]]:
    """When the stream was disturbed, s, as far as it came."""
    count = len(outcome.ended)
    return [(outcome.moment(a), outcome.moment(min(b, count))) for a, b in spans.spans if a < count]


def comparison_page(compared: PolicyComparison) -> Page:
    """The page: throughput over time drawn, the figures, every switch with its reason."""
    from tvm_hetero.report.online.rate_chart import STYLE, rate_svg
    from tvm_hetero.report.schedule.html import HtmlTable, Page, SvgPicture

    picture = rate_svg([_row(o, compared) for o in compared.outcomes], standalone=False)
    notes = [[o.policy, o.note] for o in compared.outcomes if o.note]
    tables = [
        HtmlTable(
            "Policies",
            HEADERS,
            figure_rows(compared),
            "Requests a second before, while and after something disturbed, and which share of the "
            "best configuration's that was while it did; latency of all requests; how long it took "
            "from a disturbance's begin until 90 % of the best were reached, and kept.",
        ),
    ]
    for outcome in compared.outcomes:
        if outcome.changes:
            title = f"Switches of {outcome.policy}"
            tables.append(HtmlTable(title, _CHANGE_HEADERS, change_rows(outcome)))
    if notes:
        tables.append(HtmlTable("Notes", ("policy", "note"), notes))
    return Page(
        title=compared.title,
        subtitle=best_text(compared.best),
        pictures=[SvgPicture("Throughput over time", picture, STYLE)],
        tables=tables,
    )


def _row(outcome: StreamOutcome, compared: PolicyComparison) -> RateRow:
    from tvm_hetero.report.online.rate_chart import RateRow, SwitchTick

    ticks = [
        SwitchTick(change.seconds, f"{change.configuration}\n{_why(change)}")
        for change in outcome.changes
        if change.switched
    ]
    return RateRow(
        outcome.policy,
        rate_points(outcome, _POINTS),
        shaded(outcome, compared.spans),
        _best_levels(outcome, compared),
        ticks,
    )


def _best_levels(
    outcome: StreamOutcome, compared: PolicyComparison
) -> list[tuple[float, float, float]]:
    """(begin, end, requests/s) of the best configuration: quiet and disturbed in turns."""
    best = compared.best
    if best.quiet is None or best.disturbed is None:
        return []
    count = len(outcome.ended)
    edges = [0, *(min(edge, count) for edge in compared.spans.edges), count]
    moments = [outcome.moment(edge) for edge in edges]
    return [
        (a, b, best.disturbed if number % 2 else best.quiet)
        for number, (a, b) in enumerate(pairwise(moments))
        if b > a
    ]


def change_rows(outcome: StreamOutcome) -> list[list[str]]:
    """A row a switch or end of a search; of very many the first ones."""
    rows = [
        [
            f"{change.seconds:.2f} s",
            str(change.request),
            "switch" if change.switched else "settled",
            change.configuration,
            _why(change),
        ]
        for change in outcome.changes[:_LISTED]
    ]
    more = len(outcome.changes) - _LISTED
    if more > 0:
        rows.append(["", "", f"and {more} more", "", ""])
    return rows


def _why(change: PlanChange) -> str:
    return f"{change.why} ({change.cause})" if change.cause else change.why


def comparison_dict(compared: PolicyComparison) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {
        "title": compared.title,
        "requests": compared.spans.requests,
        "disturbed": [list(span) for span in compared.spans.spans],
        "best": asdict(compared.best),
        "policies": [
            {
                "policy": outcome.policy,
                **asdict(compared.figures(outcome)),
                "seconds": outcome.ended[-1],
                "changes": [asdict(change) for change in outcome.changes],
                "note": outcome.note,
            }
            for outcome in compared.outcomes
        ],
    }
