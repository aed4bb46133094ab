"""The part of build/results/performance.md on how many tokens come out, and the goal of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.decoding import kernels_page
from benchmarks.parts import Document, Row, by, goal, machine, table

# What is meant to be reached: tokens per second of two devices over one, at this batch.
GAIN_GOAL, GAIN_BATCH = 1.8, 8
_ONE, _TWO = "one core", "two devices"


def gains(rows: Sequence[Row]) -> dict[tuple[str, int], float]:
    """Tokens per second of two devices' better plan over one core, by weights and batch."""
    found = {}
    for weights, mine in by(rows, "weights").items():
        for batch, sides in by(mine, "batch").items():
            one = [row["tokens_s"] for row in sides if row["side"] == _ONE]
            two = [row["tokens_s"] for row in sides if row["side"].startswith(_TWO)]
            if one and two:
                found[weights, batch] = max(two) / one[0]
    return found


def _goals(document: Document) -> list[list[str]]:
    reached = {w: gain for (w, b), gain in gains(document["rows"]).items() if b == GAIN_BATCH}
    return [
        goal(f"decoding at batch {GAIN_BATCH}, {weights}: tokens/s of two devices over one",
             f"≥ {GAIN_GOAL}", f"{gain:.2f}", gain >= GAIN_GOAL)
        for weights, gain in reached.items()
    ]  # fmt: skip


def _decode(document: Document) -> str:
    sections = [
        "## Tokens a second", "",
        f"{document['model']} with random weights, prompts of {document['prompt']} tokens, caches "
        f"of {document['length']}; the steady state of greedy decoding, tokens of all sequences a "
        f"second, median of {document['rounds']} turns (best in brackets), in the calmest of up to "
        "four tries (*unrest*: by how much medians stand off the best, at most). A batch is the "
        "sequences of a group; *three groups* are in flight together on two devices of a core "
        "each, which have a part of the model each; with *halves of layers* both devices work on "
        "every layer. *Prompt* is tokens of the prompts a second, *same* the share of generated "
        f"tokens that are those of one core. PyTorch {document['torch']}.", "",
        machine(document), "",
    ]  # fmt: skip
    heads = ["batch", "side", "tokens/s", "predicted", "over one core", "prompt", "same", "others",
             "unrest"]  # fmt: skip
    for weights, rows in by(document["rows"], "weights").items():
        lines: list[list[Any]] = []
        for batch, sides in by(rows, "batch").items():
            one = next((r["tokens_s"] for r in sides if r["side"] == _ONE), float("nan"))
            lines += [
                [batch, r["side"], f"{r['tokens_s']:.1f} ({r['best_s']:.1f})",
                 f"{r['predicted_s']:.1f}" if r["predicted_s"] else "",
                 f"{r['tokens_s'] / one:.2f}", f"{r['prompt_s']:.0f}", f"{100 * r['same']:.0f} %",
                 f"{r['others']:.1f}", f"{100 * r['unrest']:.0f} %"]
                for r in sides
            ]  # fmt: skip
        sections += [f"### {weights}", "", table(heads, lines), ""]
    return "\n".join([*sections, *_accuracy(document["accuracy"])])


def _accuracy(rows: Sequence[Row]) -> list[str]:
    lines = [[r["weights"], f"{r['error']:.2e}", f"{100 * r['same']:.1f} %"] for r in rows]
    heads = ["weights", "mean distance of logits / deviation", "same likeliest token"]
    return [
        "### What rounded weights cost", "",
        "Beside transformers in float32, on random texts given token by token"
        + (f" ({rows[0]['tokens']} tokens)" if rows else "")
        + ". Random weights are the hardest case: nothing in them is redundant.", "",
        table(heads, lines), "",
    ]  # fmt: skip


GOALS: dict[str, Callable[[Document], list[list[str]]]] = {"decode": _goals, **kernels_page.GOALS}
SECTIONS: dict[str, Callable[[Document], str]] = {
    "decode": _decode,
    **kernels_page.SECTIONS,
}
