"""Decoding on memories that compute: our plans beside what papers report, same models and shapes.

    python -m benchmarks.pim [--small] [--only SYSTEM]     writes results/pim.json (some minutes)
    python -m benchmarks.pim --show                        prints the table of docs/pim.md

Of each case two plans: on the GPU alone, which is given as much memory as the memory that computes
has (papers compare at equal capacity) unless the paper's is another server's, each layer as two
fused tasks; and on both, the layer in tasks that the units can take
(`tvm_hetero.zoo.decoder_grains`). All seconds are those of rooflines
on published figures. ``at most`` is what no plan of these tasks can be above, by the bound.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.documents import write_document
from benchmarks.quoted.pim import pim_table
from benchmarks.result_rows import read_rows
from tvm_hetero import zoo
from tvm_hetero.planning import DecoderPlan, DecoderRequest, plan_decoder
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.platform.arithmetic_units import Units
from tvm_hetero.solvers import Options
from tvm_hetero.util.nearest import nearest
from tvm_hetero.zoo.processing_in_memory import PARTS, PimServer, build_server, pim_device

RESULTS = Path(__file__).resolve().parent / "results" / "pim.json"
GAP, LIMIT, SMALL_LIMIT = 0.01, 20.0, 0.3
Row = dict[str, Any]

_NEUPIMS = PimServer(
    "Four A100 of 40 GB, each with as much HBM-PIM",
    "a100-40x8", ("cpu", "gpu0"), "aquabolt-xl", 28, "gpu0", 28 * 307.2e9, 1e-6, gang=4,
)  # fmt: skip


def controlled_memory(channels: int = 8) -> Platform:
    """Memory that multiplies under a controller that does the rest: PIM-GPT, and nearly IANUS.

    The controller's rates are values of ours, its bandwidth is that of the memory's pins, and
    nobody waits for the launch of a kernel: it is one program.
    """
    part = PARTS["gddr6-aim"]
    pins = channels * part.pins
    units = Units(2, {"product": 1.0, "elementwise": 1.0, "lookup": 1.0, "rowwise": 1.0})
    chip = Device(
        "controller", memory=2**30, overlap=True, peak_flops=1e12, bandwidth=pins, launch=1e-7,
        units=units,
    )  # fmt: skip
    host = replace(zoo.platform("xeon-x2").device("cpu"), launch=1e-7)
    links = [
        Link(src, dst, rate, latency)
        for one, other, rate, latency in (("cpu", "controller", 25e9, 8e-6),
                                          ("controller", "pim", pins, 1e-7))
        for src, dst in ((one, other), (other, one))
    ]  # fmt: skip
    devices = (host, chip, pim_device("gddr6-aim", channels, chip))
    return Platform(devices, tuple(links), name=f"{channels} channels")


@dataclass(frozen=True)
class Case:
    """A model on a system, and how much faster than a GPU a paper reports it to be."""

    system: str
    server: str | PimServer | None
    model: str
    context: int
    batch: int = 1
    grain: str = "products"
    reported: str = "-"
    gpu: str = ""
    layers: int = 0

    @property
    def platform(self) -> Platform:
        """GPU (or a controller, where no server is named) and the memory that computes."""
        if self.server is None:
            return controlled_memory()
        if isinstance(self.server, str):
            return zoo.platform(self.server)
        return build_server(self.server, self.system)

    @property
    def alone(self) -> Platform:
        """The GPU alone: of the same server, or the first of another one."""
        if not self.gpu:
            return without_pim(self.platform)
        whole = zoo.platform(self.gpu)
        kept = ("cpu", "gpu0")
        links = tuple(link for link in whole.links if {link.src, link.dst} <= set(kept))
        return replace(whole, devices=tuple(map(whole.device, kept)), links=links, fabrics=())


# What the abstracts say. IANUS has an NPU and GPT-2 models, PIM-GPT eight models up to 1.4 billion.
_MEAN = "6.2 in the mean"
_RANGE = "41 to 137"
CASES = (
    Case("HBM-PIM", "hbm-pim", "llama2-7b", 2048),
    Case("HBM-PIM", "hbm-pim", "gpt3-6.7b", 2048),
    Case("AiM", "aim", "llama2-13b", 2048),
    Case("AiM", "aim", "llama3-8b", 2048),
    Case("AiM", "aim", "llama3-8b", 2048, 4),
    Case("IANUS", None, "gpt2-medium", 512, reported=_MEAN, gpu="a100x8"),
    Case("IANUS", None, "gpt2-xl", 512, reported=_MEAN, gpu="a100x8"),
    Case("PIM-GPT", None, "gpt2-small", 512, reported=_RANGE, gpu="t4x4"),
    Case("PIM-GPT", None, "gpt2-medium", 512, reported=_RANGE, gpu="t4x4"),
    Case("PIM-GPT", None, "gpt3-1.3b", 512, reported=_RANGE, gpu="t4x4"),
    Case("AttAcc", "attacc", "gpt3-175b", 4096, 32, "attention", reported="2.81 at most"),
    Case("AttAcc", "attacc", "gpt3-175b", 4096, 1, "attention"),
    Case("NeuPIMs", _NEUPIMS, "gpt3-13b", 384, 128, reported="3 in the mean"),
    Case("UPMEM", "upmem", "gpt3-1.3b", 1024),
)
SMALL = (
    Case("HBM-PIM", "hbm-pim", "llama2-7b", 2048, layers=2),
    Case("AttAcc", "attacc", "gpt3-175b", 4096, 32, "attention", layers=2),
)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run and write the results, or print the table of them; the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="two layers of two, nothing written")
    parser.add_argument("--show", action="store_true", help="print the table of the page")
    parser.add_argument("--only", help="a system, such as AttAcc; the other rows are kept")
    given = parser.parse_args(arguments)
    if given.show:
        rows = read_rows(RESULTS)
        print(pim_table(rows))
        return rows
    if given.small:
        return [case_row(case, SMALL_LIMIT) for case in SMALL]
    systems = sorted({case.system for case in CASES})
    if given.only not in (None, *systems):
        known = f"{', '.join(systems)}{nearest(given.only, systems)}"
        parser.error(f"--only: there is no {given.only!r}; expected one of {known}")
    kept = {_key(row): row for row in read_rows(RESULTS) if given.only not in (None, row["system"])}
    rows = []
    for case in CASES:
        key = (case.system, case.model, case.batch)
        rows.append(kept[key] if key in kept else case_row(case, LIMIT))
    write_document(RESULTS, "Decoding on memories that compute, beside papers", rows)
    return rows


def _key(row: Row) -> tuple[str, str, int]:
    return row["system"], row["model"], row["batch"]


def case_row(case: Case, limit: float) -> Row:
    """Both plans of a case, and what they are worth."""
    both = _plan(case, case.platform, case.grain, limit)
    alone = _plan(case, case.alone, "halves", limit)
    row = {
        "system": case.system, "model": case.model, "context": case.context, "batch": case.batch,
        "grain": case.grain, "reported": case.reported,
        "alone": alone.tokens_per_second, "alone_gap": alone.gap,
        "both": both.tokens_per_second, "gap": both.gap,
        "times": both.tokens_per_second / alone.tokens_per_second,
        "at_most": both.at_best / (1 - both.gap) / alone.tokens_per_second,
        "on_pim": _on_pim(both), "solver": both.schedule.solver, "tasks": len(both.problem.tasks),
    }  # fmt: skip
    print(f"{case.system}, {case.model}: {row['times']:.3g} times, at most {row['at_most']:.3g}",
          flush=True)  # fmt: skip
    return row


def without_pim(platform: Platform) -> Platform:
    """The same GPU (or processor) alone, with as much memory as both have together."""
    pim = platform.device("pim")
    kept = [device for device in platform.devices if device.name != "pim"]
    last = kept[-1]
    if last.memory is not None:
        kept[-1] = replace(last, memory=last.memory + (pim.memory or 0))
    links = tuple(link for link in platform.links if "pim" not in (link.src, link.dst))
    return replace(platform, devices=tuple(kept), links=links, name=f"{platform.name} alone")


def _plan(case: Case, platform: Platform, grain: str, limit: float) -> DecoderPlan:
    parameters = {"context": case.context, "grain": grain, "layers": case.layers}
    wish = DecoderRequest(case.model, platform, "latency", case.batch, 1, parameters)
    return plan_decoder(wish, Options(time_limit=limit, gap=GAP))


def _on_pim(plan: DecoderPlan) -> dict[str, float]:
    """Of each kind of task the share that the memory computes."""
    counts: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for run in plan.schedule.executions:
        op = plan.problem.graph.task(run.task).op
        every[op] += len(run.elements)
        counts[op] += len(run.elements) * (run.device == "pim")
    return {op: counts[op] / every[op] for op in every if counts[op]}


if __name__ == "__main__":
    main()
