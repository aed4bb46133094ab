"""Layers that many nodes share: Helix's clusters, our layouts beside those of its program.

    python -m benchmarks.helix [--small] [--only CLUSTER]   writes results/helix.json
    python -m benchmarks.helix --show                       writes docs/layer-flows.md
    python -m benchmarks.helix --documents FOLDER           writes the problems as files

Each problem is solved once (`tvm_hetero.planning.helix`) with a time limit; beside the value stand
the bound, the gap, what Helix's program (Gurobi, 10 to 80 minutes on 20 threads) says of the layout
that it found, and what the judge says of that. Where the figures are from, and in which units:
`benchmarks/layer_flows/cases.py`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.documents import write_document
from benchmarks.layer_flows.cases import CLUSTERS, MODELS, document, layer_flow, published
from benchmarks.parts import percent, table
from benchmarks.result_rows import read_rows
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.helix import judge, solve_layer_flow
from tvm_hetero.planning.helix.problem import LayerInterval
from tvm_hetero.solvers import Options
from tvm_hetero.util.documents import write_atomic

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "helix.json"
# Flows over links that bind take longer than covers.
LIMITS = {"geo24": 120.0}
LIMIT, SMALL_LIMIT = 60.0, 1.0
SMALL = (("small10", "llama30b"), ("small10", "llama70b"), ("single24", "llama70b"))
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run and write the results, the page of them, or the problems; the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="small cases, nothing is written")
    parser.add_argument("--only", choices=CLUSTERS, help="keep the other clusters' rows")
    parser.add_argument("--show", action="store_true", help="write docs/layer-flows.md")
    parser.add_argument("--documents", type=Path, metavar="FOLDER", help="write the problems")
    given = parser.parse_args(arguments)
    if given.show:
        write_page(RESULTS, ROOT / "docs")
        return []
    if given.documents:
        write_problems(given.documents)
        return []
    if given.small:
        return [layer_flow_row(*case, SMALL_LIMIT) for case in SMALL]
    rows = [
        layer_flow_row(cluster, model, LIMITS.get(cluster, LIMIT))
        for cluster in CLUSTERS
        for model in MODELS
        if given.only in (None, cluster)
    ]
    rows = sorted(rows + _kept(given.only), key=_order)
    write_document(RESULTS, "Helix's clusters: layouts of ours and of its program", rows)
    return rows


def _order(row: Row) -> tuple[int, int]:
    return CLUSTERS.index(row["cluster"]), MODELS.index(row["model"])


def _kept(wanted: str | None) -> list[Row]:
    """The rows of the last run that are not made anew."""
    return [row for row in read_rows(RESULTS) if wanted not in (None, row["cluster"])]


def layer_flow_row(cluster: str, model: str, limit: float) -> Row:
    """One problem: value, bound and gap, beside the published layout."""
    problem = layer_flow(cluster, model)
    theirs = published(cluster, model)
    row: Row = {
        "cluster": cluster,
        "model": model,
        "nodes": len(problem.nodes),
        "layers": problem.layers,
        "said": theirs and theirs.said,
        "judged": theirs and theirs.judged,
        "note": theirs.note if theirs else "",
        "limit": limit,
    }
    used = time.process_time()
    try:
        answer = solve_layer_flow(problem, Options(time_limit=limit))
    except InfeasibleError as error:
        print(error, flush=True)
        return row | {"value": None, "bound": 0.0, "gap": 0.0, "proven": True, "holds": {}}
    print(f"{problem.name}: {answer.value:.2f} of at most {answer.bound:.2f} tokens/s, gap "
          f"{answer.gap:.2%}, {answer.seconds:.1f} s", flush=True)  # fmt: skip
    pairs = zip(problem.nodes, answer.layout, strict=True)
    return row | {
        "value": answer.value,
        "bound": answer.bound,
        "gap": answer.gap,
        "proven": answer.proven,
        "seconds": answer.seconds,
        "cpu_seconds": time.process_time() - used,
        "holds": {node.name: held and [*held] for node, held in pairs},
    }


def write_problems(folder: Path) -> None:
    """Write the documents of all problems into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for cluster in CLUSTERS:
        for model in MODELS:
            text = json.dumps(document(cluster, model), indent=1)
            write_atomic(folder / f"{cluster}-{model}.json", f"{text}\n")


_HEAD = """# Layers that many nodes share

[Helix](https://arxiv.org/abs/2406.01566) (Y. Mei et al., ASPLOS 2025) serves one language model
from many unlike machines: each holds an interval of the layers, several may hold the same ones,
and tokens take any way through. The throughput of a layout is a maximum flow.
`tvm_hetero.planning.helix` states that as a problem ([formats.md](formats.md),
`tvm-hetero/layer-flow/1`), finds a layout, judges it by a flow and its cut, and proves how much
better any other could be.

Every figure is from `benchmarks/results/helix.json`, which `benchmarks/helix.py` writes and
`--show` makes this page of.
"""

_TAIL = """
*Ours*: tokens a second of the layout found within the limit, as the judge counts them, with
partial inference; *whole*: what the same layout passes without it (every token through all layers
that a node holds), as Helix's published layouts do. *Bound*: what no layout surpasses, either
way. *Helix*: the value that its program printed for its best published layout; *judged*: what our
judge says of that layout, with the same figures. They agree, so that the columns can be compared.

What the figures are: rates are those that the authors' programs compute from their profiles for
the machines of a cluster, in tokens a second; bandwidths are what they use, 10^6 bytes a second
where they write mbps. Only on geo24 a link limits any layout, and there this is what the paper
has (100 Mb/s between regions); elsewhere an eighth would do. Latency of links is no part of the
objective.

30B has no published value for a whole cluster: it was served by three pools of one kind of node,
with other tables. *Judged* is what the three layouts together pass with the tables of the
cluster. 70B does not fit onto small10 (room for 52 of 80 layers).

How the bound works is told in `tvm_hetero/planning/helix/price_bound.py`. It knows nothing of
links, which is why geo24 shows the largest gaps.
"""


def write_page(results: Path, docs: Path) -> None:
    """Write layer-flows.md from the results."""
    found = json.loads(results.read_text(encoding="utf-8"))
    heads = [
        "cluster", "model", "nodes", "ours", "whole", "bound", "gap", "Helix", "judged", "s",
        "of CPU",
    ]  # fmt: skip
    lines = [_line(row) for row in found["rows"]]
    limits = f"Limit {LIMIT:g} s (geo24: {LIMITS['geo24']:g} s)"
    note = f"{limits}, one core. {found['machine']}, load {found['load']:.1f}.\n"
    text = "\n".join([_HEAD, table(heads, lines), _TAIL, note])
    (docs / "layer-flows.md").write_text(text, encoding="utf-8")


def _line(row: Row) -> list[str]:
    def tokens(value: float | None) -> str:
        return f"{value:.0f}" if value is not None else "-"

    case = [row["cluster"], row["model"], str(row["nodes"])]
    if row["value"] is None:
        return [*case, "does not fit", "-", "0", "0 %", "-", "-", "-", "-"]
    strict = layer_flow(row["cluster"], row["model"], partial=False)
    held = tuple(LayerInterval(*row["holds"][node.name]) for node in strict.nodes)
    whole = judge(strict, held).value
    return [
        *case, tokens(row["value"]), tokens(whole), tokens(row["bound"]), percent(row["gap"]),
        tokens(row["said"]), tokens(row["judged"]),
        f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}",
    ]  # fmt: skip


if __name__ == "__main__":
    main()
