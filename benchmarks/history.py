"""How quick each commit was: a few figures beside a peer's, a row a commit and machine.

    python -m benchmarks.history --add              measures, appends to results/history.jsonl
    python -m benchmarks.history --check            measures; status 1 if a figure is worse
    python -m benchmarks.history --check --against COMMIT    that commit is measured here, too
    python -m benchmarks.history --check --add      both with one measurement
    python -m benchmarks.history --page             build/results/history.html, a chart a figure
    python -m benchmarks.history --small ...        one kernel and the schedules, few turns

A network, some kernels and some schedules (`commit_history.subjects`), each beside its peer in
turns on one core, a process a side (`commit_history.turns`). What counts is the ratio: a slower
machine is slower on both sides. A loss is a figure that is worse by more than a tenth than the
machine's rows have held, or than the commit of ``--against`` (`commit_history.losses`), and that is
so again when it is measured anew, each time in new processes: `ATTEMPTS` times in all. The workflow
measures the commit before (`commit_history.base_tree`), since its machines are not always the same.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commit_history.base_tree import BaseTree
from benchmarks.commit_history.losses import Loss, losses, read_accepted
from benchmarks.commit_history.page import history_page
from benchmarks.commit_history.rows import (
    HistoryRow,
    append_row,
    make_row,
    read_history,
)
from benchmarks.commit_history.turns import Figure, measure
from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.errors import HeteroError
from tvm_hetero.util.documents import write_atomic

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "history.jsonl"
PAGE = ROOT / "build" / "results" / "history.html"
ATTEMPTS = 3
_TURNS, _SMALL_TURNS = 11, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 1 if a figure is lost, 2 if rows cannot be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--add", action="store_true", help="append a row")
    parser.add_argument("--check", action="store_true", help="compare with the rows that are there")
    parser.add_argument("--against", metavar="COMMIT", help="with --check: measure that one, too")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--small", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--turns", type=int, help=f"of each figure (default: {_TURNS})")
    parser.add_argument("--rows", type=Path, default=RESULTS, help="the file of the rows")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page")
    args = parser.parse_args(arguments)
    if not (args.add or args.check or args.page):
        parser.error("nothing to do: --add, --check or --page")
    if args.against and not args.check:
        parser.error("--against says what --check compares with: add --check")
    try:
        return _done(args)
    except HeteroError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _done(args: argparse.Namespace) -> int:
    """What is asked for; the exit status."""
    status = 0
    if args.add or args.check:
        status = _measured(args)
    if args.page:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(args.output, history_page(read_history(args.rows)))
        print(f"written: {args.output}")
    return status


def _measured(args: argparse.Namespace) -> int:
    """Measure, say what came out, and check and add what is asked for; the exit status."""
    turns = args.turns or (_SMALL_TURNS if args.small else _TURNS)
    history = read_history(args.rows)
    with contextlib.ExitStack() as stack:
        base = stack.enter_context(BaseTree(args.against)) if args.against else None
        neighbours = Neighbours()
        figures = measure(turns, small=args.small)
        row = make_row(figures, neighbours.busy_cores())
        print(table(row))
        again = _Comparison(history, base, row.machine, turns, args.small)
        lost = again.told(figures) if args.check else []
    # What is lost is no measure for what comes: the next commit would be compared with it.
    if args.add and not lost:
        append_row(args.rows, row)
        print(f"added to {args.rows}")
    return int(bool(lost))


@dataclass(frozen=True)
class _Comparison:
    """What figures are compared with: rows that are there, and a commit that is measured, too."""

    history: Sequence[HistoryRow]
    base: BaseTree | None
    machine: str
    turns: int
    small: bool

    def told(self, figures: Mapping[str, Figure]) -> list[Loss]:
        """What is lost for sure, after it is said."""
        lost = lost_for_sure(
            self.losses(figures),
            lambda only: self.losses(measure(self.turns, only, small=self.small)),
        )
        for each in lost:
            print(f"LOST {each.text}")
        if self.base is None and not any(row.machine == self.machine for row in self.history):
            print("no row of this machine is there to compare with, and no commit: --against")
        return lost

    def losses(self, figures: Mapping[str, Figure]) -> list[Loss]:
        """Those of figures that were measured just now; the commit is measured right after them."""
        accepted = read_accepted()
        found = losses(figures, self.history, self.machine, accepted=accepted)
        if self.base is not None:
            there = self.base.measured(self.turns, small=self.small)
            print(table(there))
            found += losses(figures, [there], self.machine, there.commit, accepted)
        return found


def lost_for_sure(lost: list[Loss], again: Callable[[Sequence[str]], list[Loss]]) -> list[Loss]:
    """The losses that are there each time that figures of these names are measured."""
    for _ in range(ATTEMPTS - 1):
        if lost:
            names = sorted({each.name for each in lost})
            lost = [each for each in again(names) if each.name in names]
    return lost


def table(row: HistoryRow) -> str:
    """A line a figure."""
    lines = [f"{row.commit}, {row.machine}; others kept {row.others:.1f} cores busy",
             f"{'':<30}{'ratio':>8}{'quartiles':>18}{'ours, ms':>10}{'peer, ms':>10}"]  # fmt: skip
    for name, each in row.figures.items():
        times = "".join(f"{1e3 * one:>10.3f}" for one in (each.ours_s, each.peer_s) if one)
        lines.append(f"{name:<30}{each.ratio:>8.3f}{each.low:>9.3f}{each.high:>9.3f}{times}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
