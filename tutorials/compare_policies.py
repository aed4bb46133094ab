"""Policies that keep a pipeline in shape, compared on a recording: what each saw, and what it did.

Run it from the repository, after ``make setup``; TVM is not needed, and it takes seconds:

    .venv/bin/python tutorials/compare_policies.py [RECORDING.json]

The same on the command line: ``tvm-hetero adapt RECORDING.json -o report.html``; a recording of a
model of yours is what ``tvm-hetero record`` writes. `tutorials/adapt_a_stream.py` does it live.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tvm_hetero.cli.shared.adaptation import PolicyComparison, comparison_page, comparison_text
from tvm_hetero.online.comparison.outcome import StreamFigures
from tvm_hetero.online.comparison.recorded import (
    RecordedTrial,
    best_rates,
    recorded_places,
    recorded_setting,
    replay_policy,
)
from tvm_hetero.online.comparison.spans import disturbed_once
from tvm_hetero.online.table import Recording
from tvm_hetero.report.schedule.html import report_html
from tvm_hetero.util.documents import write_atomic

RESNET = Path(__file__).parent.parent / "benchmarks" / "recordings" / "resnet50.json"
POLICIES = ("resolve", "odin", "lls", "static")


def main(file: Path = RESNET, page: Path = Path("demo/policies.html")) -> dict[str, StreamFigures]:
    """Tell the story; returns the figures of each policy."""
    # ---------------------------------------------------------------- 1. a recording
    # What each block of a network takes on each kind of core, alone and while another program
    # takes the core's time, the memory's bandwidth or the cache; and how requests vary at rest.
    recording = Recording.load(file)
    print(f"1. {recording.name}: {len(recording.blocks)} blocks, {recording.source}")
    print(f"   scenarios: {', '.join(recording.scenarios)}")

    # ---------------------------------------------------------------- 2. four cores, two kinds
    # Stages are runs of blocks, each on a place of its own. The best ones by times in quiet are
    # what every policy begins with (those of Shisha and Pipe-search have seeds of their own).
    places = recorded_places(recording, 4)
    trial = RecordedTrial(recording, places, "busy", 0, disturbed_once(1500))
    print(f"2. in quiet: {recorded_setting(trial).static.text(places)}")

    # ---------------------------------------------------------------- 3. the best there is
    # For known times the best stages are found exactly. So there is a measure that no policy can
    # exceed: it has to find out first what has happened.
    best = best_rates(trial)
    print(f"3. at most {best.quiet:.1f} requests a second in quiet, {best.disturbed:.1f} if "
          f"{places[0].name} is shared, from request 500 to 1000")  # fmt: skip

    # ---------------------------------------------------------------- 4. what `resolve` saw and did
    # Each policy is a pure function from what was seen to the next configuration; the same code
    # runs live. `resolve` estimates how much slower each place is, and solves for that.
    outcomes = [replay_policy(trial, name) for name in POLICIES]
    for change in outcomes[0].changes:
        if change.switched:
            print(f"4. request {change.request}: {change.why}")
            print(f"   so it goes on with {change.configuration}")

    # ---------------------------------------------------------------- 5. beside the others
    # ODIN's way moves a block at a time, each move a trial. LLS evens out what stages take, static
    # does nothing.
    compared = PolicyComparison(f"{recording.name}, disturbed", trial.spans, best, outcomes)
    print("5. " + comparison_text(compared).replace("\n", "\n   "))
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(page, report_html(comparison_page(compared)))
    print(f"6. drawn, every switch with its reason: {page}")
    return {outcome.policy: compared.figures(outcome) for outcome in outcomes}


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
