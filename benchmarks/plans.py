"""Plans of GPT-3 175B on 4 to 64 servers, and services that run on plans.

    python -m benchmarks.plans [--small] [--only plans|services]   writes results/plans.json
    python -m benchmarks.plans --show                              writes docs/planning.md

Plans: `tvm_hetero.planning.plan_decoder` for each goal on servers of one kind (the six of DiviML's
case study, and other numbers of them) and of four kinds: tokens a second, gap, and the wall seconds
of all of it. Services: requests that arrive at several rates, simulated on one plan.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.documents import write_document
from benchmarks.parts import percent, table
from benchmarks.result_rows import read_rows
from tvm_hetero import zoo
from tvm_hetero.planning import DecoderPlan, DecoderRequest, plan_decoder
from tvm_hetero.planning.requests import parse_lengths, poisson
from tvm_hetero.planning.service import play
from tvm_hetero.planning.services import service_of
from tvm_hetero.planning.symmetry_counts import symmetry_counts
from tvm_hetero.report.planning.service import service_dict
from tvm_hetero.solvers import Options
from tvm_hetero.util.units import format_seconds

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "plans.json"
Row = dict[str, Any]
GAP = 0.01


@dataclass(frozen=True)
class Case:
    """A plan that is asked for, and the seconds that it may take."""

    platform: str
    goal: Literal["latency", "throughput"]
    batch: int = 1
    shards: int = 1
    limit: float = 10.0
    model: str = "gpt3-175b"
    parameters: dict[str, int] = field(default_factory=dict)

    def wish(self) -> DecoderRequest:
        """What is to be planned."""
        parameters = {"shards": self.shards} | self.parameters
        platform = zoo.platform(self.platform)
        return DecoderRequest(self.model, platform, self.goal, self.batch, None, parameters)


# Layers of 64 servers with 192 devices are cut into halves: there are 96 layers.
CASES = (
    Case("gpt3-4node", "latency"), Case("gpt3-4node", "throughput"),
    Case("gpt3-6node", "latency"), Case("gpt3-6node", "throughput"),
    Case("gpt3-16node", "latency"), Case("gpt3-16node", "throughput", limit=30.0),
    Case("gpt3-64node", "latency", limit=60.0), Case("gpt3-64node", "throughput", 1, 2, 60.0),
    Case("mixed-4", "latency"), Case("mixed-4", "throughput", limit=30.0),
    Case("mixed-4", "throughput", 16, limit=30.0),
)  # fmt: skip
SMALL = (
    Case("gpt3-6node", "latency"),
    Case("diviml:2", "throughput", 2, 1, 1.0, "gpt2-xl", {"layers": 6, "context": 256}),
)
# Requests a second to a service, prompts and outputs of it, and how long.
SERVED = Case("diviml:2", "throughput", 4, model="gpt3-13b", parameters={"context": 1024})
RATES, SECONDS = (0.25, 0.5, 1.0, 2.0), 60.0
LENGTHS = "lognormal:200:0.7", "lognormal:60:0.7"
SMALL_RATES, SMALL_SECONDS = (1.0,), 5.0


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run and write the results, or the page of them; the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="small cases, nothing is written")
    parser.add_argument("--show", action="store_true", help="write docs/planning.md")
    parser.add_argument("--only", choices=["plans", "services"], help="keep the other's rows")
    given = parser.parse_args(arguments)
    if given.show:
        write_page(RESULTS.parent, ROOT / "docs")
        return []
    rows = [] if given.small or not given.only else _kept(given.only)
    if given.only != "services":
        rows += [plan_row(case) for case in (SMALL if given.small else CASES)]
    if given.only != "plans":
        case = SMALL[1] if given.small else SERVED
        rows += service_rows(case, *((SMALL_RATES, SMALL_SECONDS) if given.small else
                                     (RATES, SECONDS)))  # fmt: skip
    if not given.small:
        what = "plans of decoders on clusters, and services simulated on them"
        write_document(RESULTS, what, sorted(rows, key=lambda row: row["part"]))
    return rows


def _kept(wanted: str) -> list[Row]:
    """The rows of the last run that are not made anew."""
    return [row for row in read_rows(RESULTS) if row["part"] != wanted]


def _planned(case: Case) -> DecoderPlan:
    return plan_decoder(case.wish(), Options(time_limit=case.limit, gap=GAP))


def plan_row(case: Case) -> Row:
    """One plan: what it is worth, how good that is, and how long it took."""
    began, used = time.monotonic(), time.process_time()
    plan = _planned(case)
    seconds, used = time.monotonic() - began, time.process_time() - used
    counts = symmetry_counts(plan.problem)
    row = {
        "part": "plans",
        "model": case.model,
        "platform": case.platform,
        "nodes": len({device.node for device in plan.wish.platform.devices}),
        "devices": len(plan.wish.platform.devices),
        "used": len({e.device for e in plan.schedule.executions}),
        "goal": case.goal,
        "batch": case.batch,
        "in_flight": plan.in_flight,
        "shared": sum(len(at) > 1 for at in plan.schedule.placement.values()),
        "tasks": len(plan.problem.tasks),
        "tokens_per_second": plan.tokens_per_second,
        "at_best": plan.at_best,
        "seconds_per_token": plan.seconds_per_token,
        "gap": plan.gap,
        "solver": plan.schedule.solver,
        "seconds": seconds,
        "cpu_seconds": used,
        "log10_placements": counts.placements,
        "log10_classes": counts.classes,
    }
    print(f"{case.platform}, {case.goal}: {row['tokens_per_second']:.4g} tokens/s, gap "
          f"{row['gap']:.2%}, {seconds:.1f} s ({used:.1f} of CPU)", flush=True)  # fmt: skip
    return row


def service_rows(case: Case, rates: Sequence[float], seconds: float) -> list[Row]:
    """One plan under several loads."""
    plan = _planned(case)
    service = service_of(plan, min(256, case.parameters["context"]))
    lengths = [parse_lengths(text) for text in LENGTHS]
    rows = []
    for rate in rates:
        requests = poisson(rate, seconds, *lengths, seed=0)
        found = service_dict(service, play(service, requests, seconds, seconds / 10))
        busiest = max(found["busy"], key=lambda name: found["busy"][name])
        rows.append(
            {
                "part": "services",
                "model": case.model,
                "platform": case.platform,
                "rate": rate,
                "plan_tokens_per_second": plan.tokens_per_second,
                "busiest": busiest,
                "busy": found["busy"][busiest],
                **{key: found[key] for key in _KEYS},
            }
        )
        print(f"{rate:g} requests/s: {found['saturated']}", flush=True)
    return rows


_KEYS = (
    "tokens_per_second", "requests_per_second", "slots", "slots_taken", "waiting",
    "time_to_first_token", "time_per_output_token", "latency",
)  # fmt: skip

_HEAD = """# Planning for machines that are not here

    tvm-hetero plan gpt3-175b --platform platforms/gpt3-6node.yaml
    tvm-hetero simulate gpt3-175b --platform gpt3-16node --arrivals 0.5 --prompt 300 --output 100

`plan` says which layers go where, what memory that takes, the tokens a second and how good that is;
`simulate` plays requests on a plan, with prompts, outputs and arrivals that are given or drawn.
Costs come from a roofline on data-sheet figures (`tvm_hetero/zoo/hardware.py` has them all, with
their sources), and nothing here has been run on such machines.

Every figure below is from `benchmarks/results/plans.json`, which `benchmarks/plans.py` writes and
`--show` makes this page of.
"""


def write_page(results: Path, docs: Path) -> None:
    """Write planning.md from the results."""
    document = json.loads((results / "plans.json").read_text(encoding="utf-8"))
    plans, services = (
        [row for row in document["rows"] if row["part"] == part] for part in ("plans", "services")
    )
    note = f"{document['machine']}, {document['cores']} cores, load {document['load']:.1f}."
    text = "\n".join([_HEAD, _plans(plans), "", *_services(services), note, ""])
    (docs / "planning.md").write_text(text, encoding="utf-8")


def _plans(rows: Sequence[Row]) -> str:
    heads = ["GPT-3 175B on", "nodes", "devices", "goal", "batch x in flight", "tokens/s",
             "s a token", "gap", "planned in, s", "of CPU", "placements", "classes"]  # fmt: skip
    lines = [
        [row["platform"], row["nodes"], f"{row['used']} of {row['devices']}", row["goal"],
         f"{row['batch']} x {row['in_flight']}", f"{row['tokens_per_second']:.4g}",
         format_seconds(row["seconds_per_token"]), percent(row["gap"]), f"{row['seconds']:.1f}",
         f"{row['cpu_seconds']:.1f}",
         f"10^{row['log10_placements']:.0f}", f"10^{row['log10_classes']:.0f}"]
        for row in rows
    ]  # fmt: skip
    return "\n".join([
        "## Plans", "",
        "`gpt3-*node` are servers with a processor and two different GPUs on 100 Gb/s Ethernet, "
        "`mixed-*` servers with eight H100, eight A100, four L4 and four T4 in equal numbers. "
        "Tokens a second are those of all sequences in flight, played with all batches full. "
        "*Placements* fall into *classes* by exchanges of equal devices and nodes.", "",
        table(heads, lines),
    ])  # fmt: skip


def _services(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    first = rows[0]
    heads = ["requests/s", "done/s", "tokens/s", "first token, p50", "p99", "each token, p50",
             "p99", "slots taken", "busiest"]  # fmt: skip
    lines = [
        [f"{row['rate']:g}", f"{row['requests_per_second']:.3g}",
         f"{row['tokens_per_second']:.4g}",
         *(format_seconds(row[key][p]) for key in ("time_to_first_token", "time_per_output_token")
           for p in ("p50", "p99")),
         f"{row['slots_taken']:.3g} of {row['slots']}",
         f"{row['busiest']}, {percent(row['busy'])}"]
        for row in rows
    ]  # fmt: skip
    return [
        "## A service", "",
        f"{first['model']} on {first['platform']}, planned for "
        f"{first['plan_tokens_per_second']:.4g} tokens a second; prompts of 200 tokens in the "
        "mean and outputs of 60, both lognormal.", "",
        table(heads, lines), "",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
