"""Rows of `benchmarks.adapted`: what they hold, which of a file stay, how they are told."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CASE = ("model", "platform", "kind", "core", "seconds")


@dataclass(frozen=True)
class AdaptedRow:
    """One stream: rates in requests/s, latencies in ms, others in cores (`disturbed_stream`)."""

    model: str
    platform: str
    kind: str
    core: int
    seconds: float
    policy: str
    quiet: float
    disturbed: float
    after: float
    best: float
    p50: float
    p99: float
    trials: int
    switches: int
    others: float

    def text(self) -> str:
        """In one line."""
        return (
            f"{self.model:<13}{self.platform:<7}{self.kind} on {self.core}  {self.seconds:4.1f} s  "
            f"{self.policy:<8}{self.quiet:7.1f} -> {self.disturbed:7.1f} -> {self.after:7.1f} "
            f"(best {self.best:7.1f})  p50 {self.p50:.1f} p99 {self.p99:.1f} ms, "
            f"{self.trials} trials, {self.switches} switches; others {self.others:.2f} cores"
        )


def merged(
    kept: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Rows of a file that were kept, but for those that were measured anew, and these.

    Where nobody looked for the best this time, what was found before is the best still.
    """
    found = {(*_case(row), row["policy"]): row for row in kept}
    for row in rows:
        key = (*_case(row), row["policy"])
        best = row["best"] or found.get(key, row)["best"]
        found[key] = {**row, "best": best}
    return list(found.values())


def summary(rows: Sequence[AdaptedRow]) -> str:
    """Rates under disturbances over those of the static plan, in the geometric mean."""
    lines = []
    for platform in dict.fromkeys(row.platform for row in rows):
        static = {_case(row.__dict__): row for row in rows if row.policy == "static"}
        for policy in dict.fromkeys(row.policy for row in rows):
            ratios = [
                row.disturbed / static[case].disturbed
                for row in rows
                if (row.platform, row.policy) == (platform, policy)
                and (case := _case(row.__dict__)) in static
            ]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                lines.append(f"{platform}: {policy} {mean:.3f} of static while disturbed")
    return "\n".join(lines)


def uneasy(rows: Sequence[Mapping[str, Any]], least: float = 0.8) -> list[Mapping[str, Any]]:
    """Rows that were not what they are said to be in quiet: somebody else was at work.

    That is a quiet rate below this share of the median one of the same model, cores and policy.
    """
    quiet: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        quiet.setdefault(_peers(row), []).append(row["quiet"])
    return [row for row in rows if row["quiet"] < least * statistics.median(quiet[_peers(row)])]


def _case(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in _CASE)


def _peers(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["model"], row["platform"], row["policy"]
