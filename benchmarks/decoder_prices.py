"""What a million tokens cost: our choice beside Mélange's program, and what is published.

    python -m benchmarks.decoder_prices [--small]     writes results/decoder_prices.json
    python -m benchmarks.decoder_prices --show        prints the tables of docs/choosing-compared.md

Decoders of 7B to 405B on T4, L4, A100 and H100 (`benchmarks/choosing/decoder_cases.py`). Each
machine is rated once, by simulation on a roofline of data-sheet figures: with the whole load, and
with requests of one size (`benchmarks/choosing/token_rates.py`). From the same plans

    ours        what `choose` answers of that question, played; with its bound, and how many
                cheaper choices broke the SLO when they were played (`broke`)
    Mélange     its program over sizes (`benchmarks/choosing/rules/melange_program.py`): as it
                comes, and with the margin with which the same simulator finds the SLO kept
    one kind    the same program with one kind of machine, as in their paper
    published   prices of their paper, where it has that model, limit and rate

Nothing here is measured on a GPU; what is published was computed by its authors from profiles that
were. Helix's clusters are rows of `results/helix.json` with prices (`published.py`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.choosing.decoder_cases import CASES, SMALL_CASE, DecoderCase
from benchmarks.choosing.published import MELANGE
from benchmarks.choosing.rules.melange_program import KindCounts, divide_buckets, pack_slices
from benchmarks.choosing.token_rates import MachineRates, SizeBucket, buckets_of, rate_machines
from benchmarks.documents import dated, write_document
from benchmarks.quoted.decoder_prices import helix_table, price_table
from benchmarks.result_rows import read_rows
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.choosing import ChoiceRequest
from tvm_hetero.planning.choosing.arrivals import UNITS
from tvm_hetero.planning.choosing.find_choice import MachineChoice, Need, RatedRequest, find_choice
from tvm_hetero.planning.choosing.front import best_choice
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.play_choice import ChoicePlayer
from tvm_hetero.planning.choosing.program import ProgramAnswer, money
from tvm_hetero.planning.choosing.replica_plan import price_of
from tvm_hetero.solvers import Options

RESULTS = Path(__file__).resolve().parent / "results" / "decoder_prices.json"
HELIX = RESULTS.with_name("helix.json")
_PROGRAM = Options(10.0, deadline=600.0)
# Requests by which sizes are told, and seconds that a question is played, at least: a chat takes
# 20 s and more.
_SIZES, _SECONDS = 2000, 60.0
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run and write the results, or print the tables of them; the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="one small case, nothing is written")
    parser.add_argument("--show", action="store_true", help="print the tables of the page")
    parser.add_argument("--only", help="a model; the rows of others are kept")
    given = parser.parse_args(arguments)
    if given.show:
        rows = read_rows(RESULTS)
        print(price_table(rows), helix_table(read_rows(HELIX)), sep="\n\n")
        return rows
    if given.small:
        return case_rows(SMALL_CASE)
    rows = [row for row in read_rows(RESULTS) if given.only not in (None, row["model"])]
    for case in CASES:
        if given.only in (None, case.model):
            rows += [dated(row) for row in case_rows(case)]
            rows.sort(key=_order)
            write_document(RESULTS, "What a million tokens cost, beside Mélange's program", rows)
    return rows


def _order(row: Row) -> tuple[int, float]:
    """Rows of a run that was only of one model come in the place that they have."""
    keys = [(case.model, case.limit) for case in CASES]
    return keys.index((row["model"], row["limit"])), row["rate"]


@dataclass(frozen=True)
class RatedCase:
    """A case, its sizes, and what its machines carry of them."""

    case: DecoderCase
    buckets: tuple[SizeBucket, ...]
    machines: tuple[MachineRates, ...]

    @property
    def prices(self) -> list[float]:
        """Of each machine, an hour."""
        return [price_of(each.option.machine) or 0.0 for each in self.machines]

    def allocate(self, rate: float, solve: Any, only: int | None = None) -> KindCounts:
        """By Mélange's program, of all machines or of one."""
        chosen = [k for k in range(len(self.machines)) if only in (None, k)]
        asked = [rate * each.part for each in self.buckets]
        carried = [self.machines[k].buckets for k in chosen]
        found: KindCounts = solve(asked, carried, [self.prices[k] for k in chosen])
        return found


def case_rows(case: DecoderCase) -> list[Row]:
    """Each rate of a case."""
    used = time.process_time()
    buckets = buckets_of(case.asked(_SIZES, 1.0).requests)
    rated = RatedCase(case, buckets, tuple(rate_machines(case, buckets)))
    rating = time.process_time() - used
    return [_row(rated, rate) | {"rating_cpu_seconds": rating} for rate in case.rates]


def _row(rated: RatedCase, rate: float) -> Row:
    case, used = rated.case, time.process_time()
    asked = question(rated, rate)
    requests = asked.request.classes[0].requests
    ours = best_choice(asked, "price")
    broke = len(asked.player.refuted)
    free = rated.allocate(rate, divide_buckets)
    row: Row = {
        "model": case.model,
        "limit": case.limit,
        "rate": rate,
        "output": sum(each.output for each in requests) / len(requests),
        "requests": len(requests),
        "carried": {each.option.machine.name: each.mixed for each in rated.machines},
        "batches": {each.option.machine.name: each.option.batch for each in rated.machines},
        "price": ours.price,
        "bound": ours.bound,
        "gap": ours.gap,
        "margin": ours.margins.get(0, 0.0),
        "strain": ours.played[0].strain,
        "broke": broke,
        "machines": _named(ours),
        "melange": rated.allocate(rate, pack_slices).price,
        "melange_bound": free.bound,
        "melange_played": _played(asked, rated, rate),
        "single": {
            each.option.machine.name: _price(rated, rate, k)
            for k, each in enumerate(rated.machines)
        },
        "published": MELANGE.get(round(1000 * case.limit), {}).get(round(rate), {})
        if case.model == "llama2-7b"
        else {},
    }
    print(f"{case.model}, {1000 * case.limit:g} ms, {rate:g} a second: {ours.price:.2f} of at "
          f"least {ours.bound:.2f}, Mélange {row['melange']:.2f}", flush=True)  # fmt: skip
    return row | {"cpu_seconds": time.process_time() - used}


def question(rated: RatedCase, rate: float) -> RatedRequest:
    """The case at a rate as a question of `choose`, its options rated by requests a second."""
    case = rated.case
    seconds = max(_SECONDS, case.played / rate)
    served = case.asked(rate, seconds)
    request = ChoiceRequest(
        (case.variant,), case.offers, (served,), seconds=seconds, batches=case.batches,
        name=f"{case.model} at {rate:g} a second",
    )  # fmt: skip
    options = tuple(each.option for each in rated.machines)
    shares = (min(UNITS, int(UNITS * each.mixed / rate)) for each in rated.machines)
    rows = tuple(
        RatedOption(option, 0, share, float("nan"))
        for option, share in zip(options, shares, strict=True)
        if share > 0
    )
    return RatedRequest(request, options, rows, (), ChoicePlayer(request), _PROGRAM)


def _played(asked: RatedRequest, rated: RatedCase, rate: float) -> float | None:
    """The price of Mélange's allocation for as many requests as it keeps the SLO with."""

    def pick(need: Need) -> ProgramAnswer:
        counts = rated.allocate(rate * need[0] / UNITS, pack_slices).counts
        number = {e.option.name: n for e, n in zip(rated.machines, counts, strict=True)}
        replicas = tuple(
            (each, number[each.option.name]) for each in asked.rated if number[each.option.name]
        )
        return ProgramAnswer(replicas, sum(money(each) * n for each, n in replicas), 0)

    try:
        return find_choice(asked, pick, "price").price
    except InfeasibleError:
        return None


def _price(rated: RatedCase, rate: float, only: int) -> float | None:
    try:
        return rated.allocate(rate, pack_slices, only).price
    except InfeasibleError:
        return None


def _named(choice: MachineChoice) -> dict[str, int]:
    return {rated.option.machine.name: count for rated, count in choice.replicas}


if __name__ == "__main__":
    main()
