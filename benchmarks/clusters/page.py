"""The part of build/results/performance.md that tells of clusters, and the goal of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.parts import Document, Row, goal, machine, table


def _goals(document: Document) -> list[list[str]]:
    kills = document["kills"]
    whole = sum(bool(kill["equal"]) for kill in kills)
    return [
        goal("a killed node: generations that are those of the undisturbed run", "all",
             f"{whole} of {len(kills)}", whole == len(kills) > 0)
    ]  # fmt: skip


def _cluster(document: Document) -> str:
    kills = document["kills"]
    return "\n".join([
        "## Several nodes", "",
        "Processes of one Ray on one machine, each pinned to a core of its own. A model of the "
        "shape of GPT-2 small (float32, random weights) as a pipeline of stages over the nodes, "
        "groups of one sequence in flight together. *Step alone* is a step while nothing else is "
        "in flight, *communication* the share of it in which no node computes, *busy* the share of "
        "the time in which a node computes while all groups are in flight.", "",
        machine(document), "",
        table(
            ["nodes", "groups", "tokens/s", "over one node", "step alone, ms", "communication",
             "busy", "placed in, s"],
            [_row(row, document["rows"][0]) for row in document["rows"]],
        ), "",
        "### A hop", "",
        "What passing a tensor from a node to the next takes, in µs: a message of ours through a "
        "channel of Ray's, with all that a node does until it computes; calls of actors; compiled "
        "graphs, in which a node does one request at a time; and a mere copy of as many bytes.", "",
        table(["bytes", "message", "call", "compiled graph", "copy"],
              [_hop(h) for h in document["hops"]]), "",
        "### Nodes that are killed", "",
        f"{len(kills)} of {document['generations']} generations of a tiny model lost a node to "
        f"SIGKILL at a random token; {sum(bool(k['equal']) for k in kills)} are token for token "
        f"those of the undisturbed run. {_longer(kills)}", "",
    ])  # fmt: skip


def _row(row: Row, first: Row) -> list[Any]:
    return [
        row["nodes"], row["groups"], f"{row['tokens_s']:.1f}",
        f"{row['tokens_s'] / first['tokens_s']:.2f}", f"{1e3 * row['step_s']:.2f}",
        f"{100 * row['communication']:.1f} %", f"{100 * row['busy']:.0f} %",
        f"{row['placing_s']:.1f}",
    ]  # fmt: skip


def _hop(hop: Row) -> list[Any]:
    took = [hop["message_s"], hop["call_s"], hop["compiled_s"]]
    cells = ["" if seconds is None else f"{1e6 * seconds:.0f}" for seconds in took]
    return [hop["nbytes"], *cells, f"{1e6 * hop['copy_s']:.1f}"]


def _longer(kills: list[Row]) -> str:
    if not kills:
        return ""
    longer = [kill["seconds"] - kill["undisturbed_s"] for kill in kills]
    return (
        f"A generation with a loss took {statistics.median(longer):.2f} s longer (median; at most "
        f"{max(longer):.2f} s): the loss is noticed, the rest is planned for, weights are placed, "
        "and every sequence is prefilled again."
    )


GOALS: dict[str, Callable[[Document], list[list[str]]]] = {"cluster": _goals}
SECTIONS: dict[str, Callable[[Document], str]] = {"cluster": _cluster}
